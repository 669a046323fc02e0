// Package service is for RPC services with Go types of their own: a procedure is declared once, with its types,
// and both ends use the declaration.
//
//	type PutArgs struct {
//		Key   string
//		Value []byte `xdr:"ddp"`
//	}
//	var put = service.Proc[PutArgs, service.Void]{Prog: 0x20000001, Vers: 1, Proc: 1}
//	var config = &transport.Config{Binding: service.Bind(put)}
//
//	service.Handle(mux, put, func(ctx context.Context, args *PutArgs) (*service.Void, error) { ... })
//	err := service.Invoke(ctx, client, put, &PutArgs{"key", value}, nil)
//
// Types have the XDR form of package xdrreflect. The member with the tag `xdr:"ddp"` is the item of its
// message, the bulk data. It is a []byte, and it is not copied: a client sends it from the caller's memory,
// a server sees it where RDMA Read has put it, and a result arrives in the memory that the caller gave. All
// else is encoded by reflection, which suits messages of up to a few hundred octets.
//
// A service works the same over RDMA and over record-marked TCP. Several services share a server by one Mux,
// and a connection by one binding: see chunks.Join.
//
// # Errors
//
// Invoke returns one error. A service has its own errors if the first member of a result is the discriminant
// of a union whose type is an error:
//
//	type Status uint32
//	func (s Status) Error() string { ... }
//	const NotFound Status = 2
//
//	type GetRes struct {
//		Status Status `xdr:"union"` // 0: success
//		Value  []byte `xdr:"unioncase=0,ddp"`
//	}
//
// A handler of such a procedure returns NotFound, wrapped or not, as its error, and so does Invoke.
//
// # Limits
//
// A message has one item, at most Config.MaxPayload octets long with the rest. What is not the item is limited
// to 4 MiB, and to 16 MiB of memory when it is decoded, which counts in Limits.Memory. A handler that wants
// to look at a call before its data is moved, or has several items, is an rpc.Handler instead: see Mux.Next.
package service
