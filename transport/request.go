package transport

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/xdr"
)

// Handler serves RPC calls. ServeRPC may be called from many goroutines at once. It fills resp
// and returns; then the reply leaves. If it panics, the reply is SYSTEM_ERR and the panic is
// logged. A handler may have three more methods. With
//
//	MayBlock(prog, vers, proc uint32) bool
//
// it decides which calls get a goroutine of their own: those that wait for a disk, a lock or
// another machine. All others run in the goroutine that reads the connection. This is several
// times faster, but blocks that connection meanwhile.
//
// With
//
//	NonIdempotent(prog, vers, proc uint32) bool
//
// it names the calls that must not run twice. A client that has lost its connection sends its
// calls again with the same XIDs, and cannot know which of them have run. The server answers
// those from its duplicate request cache (Config.DRCEntries), whatever transport they come by.
// Their context ends with the server, not with the connection.
//
// With
//
//	Lazy(prog, vers, proc uint32) bool
//
// it names the calls whose data it wants to pull itself. Data that the client offers in read
// chunks then stays at the client, and Args come without the data and its pad. The handler pulls
// the data with [Request.Opaque] straight into its own memory, or refuses the call without moving
// it. Such a call always has its own goroutine.
type Handler interface {
	ServeRPC(ctx context.Context, req *Request, resp *Response)
}

// HandlerFunc is a function that is a Handler. Its calls must not block.
type HandlerFunc func(ctx context.Context, req *Request, resp *Response)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, req *Request, resp *Response) { f(ctx, req, resp) }

// mayBlocker is the optional half of a Handler.
type mayBlocker interface {
	MayBlock(prog, vers, proc uint32) bool
}

// Request is a call, as a handler sees it.
type Request struct {
	// CallHeader is the RPC call header; the bodies of Cred and Verf are lent like
	// Args. RPCVers is 2: other versions never reach a handler.
	xdr.CallHeader
	// Args are the complete, contiguous XDR arguments, lent until ServeRPC returns. Data that came
	// by RDMA Read is already in them, pads included. In calls for which the handler's Lazy
	// returns true, data may be missing: see [Request.Opaque].
	Args []byte
	// RemoteAddr is the peer's address.
	RemoteAddr net.Addr
	// Network is "rdma" or "tcp".
	Network string

	away     *deferral // of data that are at the client still
	backward *Backward
}

// Response collects the reply to one call. It is valid until ServeRPC returns.
type Response struct {
	// Stat is the accept status; Success is the zero value. Results are sent for
	// Success only.
	Stat xdr.AcceptStat
	// Low and High are the versions served, for ProgMismatch.
	Low, High uint32
	// Verf is the verifier; AUTH_NONE is the zero value.
	Verf xdr.Auth
	// Results is where the handler appends the XDR results. It starts empty with
	// some capacity.
	Results []byte

	instead  uint64 // Immediate Data in place of the reply, with the highest bit; 0: none
	denied   bool
	refused  bool // before the handler saw it, with refusal
	refusal  xdr.ReplyHeader
	authStat xdr.AuthStat
	items    []item
	bufs     []*buffer
	mems     []*Memory
	pool     *pool
	free     func()
}

// item is an opaque appended with AppendItem: its data belong at offset pos of
// Results.
type item struct {
	pos  int
	data []byte
}

// Deny answers MSG_DENIED with AUTH_ERROR (RFC 5531 Section 9). Results are not
// sent.
func (r *Response) Deny(stat xdr.AuthStat) {
	r.denied, r.authStat = true, stat
}

// ProgMismatch answers PROG_MISMATCH with the lowest and highest version served.
func (r *Response) ProgMismatch(low, high uint32) {
	r.Stat, r.Low, r.High = xdr.ProgMismatch, low, high
}

// AppendItem appends the count word of an opaque to Results, and marks data as its octets. It is
// the reducible result, if it is eligible. Do not append the pad. More Results may follow. data
// is borrowed until the reply has left, so it should come from Buffer, or never change.
func (r *Response) AppendItem(data []byte) {
	r.Results = xdr.AppendUint32(r.Results, uint32(len(data)))
	r.items = append(r.items, item{pos: len(r.Results), data: data})
}

// Buffer returns n octets of pooled memory with unspecified content for a result. They are valid
// until the reply has left. A handler that uses its own memory learns from [Response.OnSent] when
// that is free again.
func (r *Response) Buffer(n int) []byte {
	b := r.pool.get(n)
	r.bufs = append(r.bufs, b)
	return b.data[:n]
}

// AppendMemory is AppendItem for the n octets at off of m. m is in use until the reply has left,
// so that no other call takes it before. (Results need no registration: they leave by RDMA
// Write.) It returns ErrMemoryInUse, or ErrNotInMemory if m has no such octets, and then appends
// nothing.
func (r *Response) AppendMemory(m *Memory, off, n int) error {
	if off < 0 || n < 0 || off > len(m.data) || n > len(m.data)-off {
		return ErrNotInMemory
	}
	if _, err := m.take(m.data); err != nil {
		return err
	}
	r.mems = append(r.mems, m)
	r.AppendItem(m.data[off : off+n])
	return nil
}

// OnSent sets a function that is called once when the data of AppendItem are no
// longer used, also when the connection failed. It must not block.
func (r *Response) OnSent(free func()) { r.free = free }
