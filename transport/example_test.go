package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stag-rdma/stag/chunks"
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

// A result is placed straight into the caller's memory.
func ExampleClient_Do() {
	addr, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", addr, config)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	sink := make([]byte, 100_000)
	call := rpc.Call{
		Prog: prog, Vers: vers, Proc: procBlob,
		Args: xdr.AppendUint32(nil, 100_000),
		Sink: sink, MaxResults: 4, // the count word stays in the reply
	}
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(ctx, &call, &reply); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(reply.Item), string(sink[:9]))
	fmt.Println(c.Stats().OctetsWritten, "octets by RDMA Write")
	// Output:
	// 100000 stag stag
	// 100000 octets by RDMA Write
}

// A client that only knows record-marked RPC on a net.Conn.
func ExampleDialConn() {
	addr, stop := serve()
	defer stop()
	conn, err := transport.DialConn(context.Background(), "tcp", addr, config)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: xdr.RPCVersion, Prog: prog, Vers: vers, Proc: procDouble})
	call = xdr.AppendUint32(call, 21)
	conn.Write(append(xdr.AppendRecordMark(nil, len(call), true), call...))
	reply, err := xdr.NewRecordReader(conn, 0).Next(nil)
	fmt.Println(reply[len(reply)-1], err, conn.Stats().Calls, "calls")
	// Output: 42 <nil> 2 calls
}
