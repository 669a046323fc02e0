package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The examples serve one program: procedure 1 doubles a word, procedure 2 returns an
// opaque of n octets, procedure 3 takes a name and an opaque.
const (
	prog, vers = 400000, 1
	procDouble = 1
	procBlob   = 2
	procPut    = 3
)

func handle(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	switch req.Proc {
	case 0:
	case procDouble:
		resp.Results = xdr.AppendUint32(resp.Results, 2*d.Uint32())
	case procBlob:
		b := resp.Buffer(int(d.Uint32() & 0xfffff))
		copy(b, bytes.Repeat([]byte("stag "), len(b)/5+1))
		resp.AppendItem(b)
	default:
		resp.Stat = xdr.ProcUnavail
	}
	if d.Err() != nil {
		resp.Stat = xdr.GarbageArgs
	}
}

// config makes the result of procedure 2, and the argument of procedure 3, DDP-eligible (RFC 8166 Section 6).
var config = &transport.Config{Binding: chunks.Table{
	{Prog: prog, Vers: vers, Proc: procBlob, Result: chunks.After()},
	{Prog: prog, Vers: vers, Proc: procPut, Arg: chunks.After(chunks.Opaque)}, // after a string
}}

// serve starts a server on loopback.
func serve() (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: rpc.HandlerFunc(handle), Config: config}
	go s.Serve(l)
	return l.Addr().String(), func() { s.Close() }
}

func ExampleServeMessage() {
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: xdr.RPCVersion, Prog: prog, Vers: vers, Proc: procDouble})
	call = xdr.AppendUint32(call, 4)
	reply, ok := rpc.ServeMessage(context.Background(), rpc.HandlerFunc(handle), nil, call, nil)
	fmt.Println(ok, len(reply), reply[len(reply)-1])
	// Output: true 28 8
}

// putter stores blobs of at most 100,000 octets. It looks at the name before the octets are
// moved, and reads them straight into its own memory.
type putter map[string][]byte

func (putter) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Lazy: req.Proc == procPut}
}

func (p putter) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	name := d.String(20)
	blob := req.Opaque(&d, 1<<20)
	switch {
	case d.End() != nil:
		resp.Stat = xdr.GarbageArgs
	case blob.Len() > 100_000:
		resp.Results = xdr.AppendUint32(resp.Results, 27) // too large
	default:
		mem := make([]byte, blob.Len())
		if blob.PullInto(ctx, mem) != nil {
			return // the connection has ended
		}
		p[name] = mem
		resp.Results = xdr.AppendUint32(resp.Results, 0)
	}
}

// A handler that refuses data before they are moved.
func ExampleRequest_Opaque() {
	// With Sends of 4 KiB, as with Linux: larger ones take the data along.
	cfg := &transport.Config{Binding: config.Binding, InlineSend: transport.DefaultInlineSize}
	stored := putter{}
	s := &transport.Server{Handler: stored, Config: cfg}
	defer s.Close()
	a, b := rdmaptest.Pipe()
	go s.ServeConn(b)
	c, err := transport.NewClient(context.Background(), a, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, size := range []int{50_000, 500_000} {
		args := xdr.AppendUint32(xdr.AppendString(nil, "blob"), uint32(size))
		call := rpc.Call{
			Prog: prog, Vers: vers, Proc: procPut, Args: args, ItemPos: len(args), Item: make([]byte, size),
		}
		var reply rpc.Reply
		if err := c.Do(context.Background(), &call, &reply); err != nil {
			log.Fatal(err)
		}
		fmt.Println("status", reply.Results[3], "after reading", s.Stats().OctetsRead, "octets")
		reply.Release()
	}
	fmt.Println(len(stored["blob"]), "octets stored")
	// Output:
	// status 0 after reading 50000 octets
	// status 27 after reading 50000 octets
	// 50000 octets stored
}

// Memory that is registered once and used for many calls.
func ExampleAlloc() {
	addr, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", addr, config)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	mem := rpc.Alloc(1 << 20)
	call := rpc.Call{
		Prog: prog, Vers: vers, Proc: procBlob, Args: xdr.AppendUint32(nil, 100_000),
		Sink: mem.Bytes()[:100_000], SinkMemory: mem, MaxResults: 4,
	}
	var reply rpc.Reply
	for range 10 {
		if err := c.Do(ctx, &call, &reply); err != nil {
			log.Fatal(err)
		}
		reply.Release()
	}
	st := c.Stats()
	fmt.Println(st.Registered, "registration,", st.Reused, "more uses,", st.OctetsLent, "octets lent now")
	fmt.Println(mem.Free())
	// Output:
	// 1 registration, 9 more uses, 0 octets lent now
	// <nil>
}

// A COMPOUND of NFS version 4 with two WRITEs: each has a read chunk of its own.
func ExampleCallItem() {
	s := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == 0 { // NULL, by which a client begins
			return
		}
		d := xdr.NewDecoder(req.Args)
		d.Skip(4 + 4 + 4) // tag, minor version, operations
		for range 2 {
			d.Skip(4 + 16 + 8 + 4) // OP_WRITE: state id, offset, stability
			fmt.Println(len(d.Opaque(1<<20)), "octets")
		}
		resp.Results = append(resp.Results, make([]byte, 12)...) // status, tag, no results
	})}
	defer s.Close()
	a, b := rdmaptest.Pipe()
	go s.ServeConn(b)
	c, err := transport.NewClient(context.Background(), a, &transport.Config{InlineSend: transport.DefaultInlineSize})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	call := rpc.Call{Prog: 100003, Vers: 4, Proc: 1, Args: []byte{11: 2}}
	for _, data := range [][]byte{make([]byte, 30_000), make([]byte, 50_000)} {
		call.Args = append(xdr.AppendUint32(call.Args, 38), make([]byte, 16+8+4)...)
		call.Args = xdr.AppendUint32(call.Args, uint32(len(data)))
		if call.Item == nil {
			call.Item, call.ItemPos = data, len(call.Args)
		} else {
			call.MoreItems = append(call.MoreItems, rpc.CallItem{Pos: len(call.Args), Data: data})
		}
	}
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(context.Background(), &call, &reply); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Stats().OctetsRead, "octets by RDMA Read")
	// Output:
	// 30000 octets
	// 50000 octets
	// 80000 octets by RDMA Read
}

// A caller that does not know whether its call has run looks what the server has.
func ExampleOutcomeError() {
	err := error(&rpc.OutcomeError{XID: 7, Prog: 400_000, Vers: 1, Proc: 5, Sent: 1, Err: net.ErrClosed})
	if oe, ok := errors.AsType[*rpc.OutcomeError](err); ok {
		fmt.Println("procedure", oe.Proc, "may have run:", errors.Is(err, net.ErrClosed))
	}
	fmt.Println(err)
	// Output:
	// procedure 5 may have run: true
	// transport: call 0x00000007 of program 0x61a80, version 1, procedure 5: the server may or may not have run it: use of closed network connection (look what the server has before you make the call again; set Call.Repeatable for calls that may run twice, or whose replies the server keeps)
}
