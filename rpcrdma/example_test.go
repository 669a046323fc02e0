package rpcrdma_test

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// A NULL call from one machine to the other and back. What travels between them
// is one Send each way.
func Example() {
	q, _ := rpcrdma.NewRequester(rpcrdma.RequesterConfig{Credits: 32})
	p, _ := rpcrdma.NewResponder(rpcrdma.ResponderConfig{Credits: 16})
	p.Credits().Posted(p.Credits().Need())

	head := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 100003, Vers: 3})
	c := &rpcrdma.Call{XID: 1, Prog: 100003, Vers: 3, Message: chunks.Message{Head: head}}
	if err := q.Plan(c); err != nil {
		fmt.Println(err)
		return
	}
	if err := q.Begin(c); err != nil {
		fmt.Println(err)
		return
	}
	send, _, err := q.AppendCall(nil, c)
	fmt.Println("call:", len(send), "octets,", c.Plan.Form, err)

	var in rpcrdma.Inbound
	fmt.Println("server:", p.Receive(send, &in), "procedure", in.RPC.Proc)
	p.Credits().Posted(p.Credits().Need())
	var out rpcrdma.Reply
	reply := chunks.Message{Head: xdr.AppendReply(nil, &xdr.ReplyHeader{XID: in.RPC.XID})}
	p.Reply(nil, &in, &reply, &out)

	done, err := q.Receive(out.Head)
	fmt.Println("answered:", done == c, done.Result.RPC.Accept, err)
	fmt.Println("credits:", q.Available())
	// Output:
	// call: 68 octets, short <nil>
	// server: dispatch procedure 0
	// answered: true SUCCESS <nil>
	// credits: 16
}

// A reply that fits nowhere: the server exposes it, the client reads it and says so.
func ExampleResponder_Expose() {
	p, _ := rpcrdma.NewResponder(rpcrdma.ResponderConfig{Profile: rpcrdma.RFC5666, Reads: true})
	q, _ := rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: rpcrdma.RFC5666, Reads: true})
	p.Credits().Posted(p.Credits().Need())

	head := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 400100, Vers: 1})
	c := &rpcrdma.Call{XID: 1, Prog: 400100, Vers: 1, Message: chunks.Message{Head: head}}
	_ = q.Plan(c)  // nothing to register
	_ = q.Begin(c) // there is a credit
	send, _, _ := q.AppendCall(nil, c)

	var in rpcrdma.Inbound
	var out rpcrdma.Reply
	fmt.Println("server:", p.Receive(send, &in))
	reply := chunks.Message{Head: xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 1}), Body: make([]byte, 5000)}
	p.Reply(nil, &in, &reply, &out)
	fmt.Println("exposed:", p.Expose(&out), out.Form, out.Expose[0].Octets, "octets")
	p.Credits().Posted(p.Credits().Need())
	memory := out.AppendStream(nil) // to be registered; here handle 7
	send = p.AppendExposed(nil, &in, &out, []chunks.Segment{{Handle: 7, Length: uint32(len(memory))}})

	_, _ = q.Receive(send)
	fmt.Println("client reads:", c.Result.Read, c.Layout.Pulls)
	fmt.Println("result:", q.Pulled(c, memory), len(c.Result.Results), "octets")
	done, _ := q.AppendDone(nil)
	fmt.Println("server:", p.Receive(done, &in), in.Done == &out)
	// Output:
	// server: dispatch
	// exposed: true long 5024 octets
	// client reads: true [{{0x00000007 5024 0} 0}]
	// result: <nil> 5000 octets
	// server: done true
}

// The Connection Configuration Protocol: three words each way.
func ExampleParseConfigArgs() {
	args, err := rpcrdma.ParseConfigArgs(rpcrdma.ConfigArgs{MaxCall: 4096, MaxReply: 2048, MaxRead: 16}.Append(nil))
	fmt.Println(args, err)
	got, err := rpcrdma.ParseConfigReply(rpcrdma.ConfigReply{MaxCall: 8192, Align: 64, MaxRead: 8}.Append(nil))
	fmt.Println(got, err, rpcrdma.PadsTo(got.Align))
	fmt.Println("replies of", rpcrdma.ConfigInline(65536, args.MaxReply, 0), "octets")
	// Output:
	// {4096 2048 16} <nil>
	// {8192 64 8} <nil> true
	// replies of 2048 octets
}

// What a sniffer sees of a padded WRITE: the data begin at a multiple of 64 octets of the Send.
func ExampleUnpadCall() {
	q, _ := rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: rpcrdma.RFC5666, SendSize: 1024, Align: 64, AlignMin: 100, Binding: chunks.NFSv3})
	head := xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 100003, Vers: 3, Proc: 7})
	body := xdr.AppendOpaque(nil, []byte("file"))
	for _, w := range []uint32{0, 0, 200, 2, 200} { // offset, count, stable, count of data
		body = xdr.AppendUint32(body, w)
	}
	c := &rpcrdma.Call{XID: 1, Prog: 100003, Vers: 3, Proc: 7, Message: chunks.Message{
		Head: head, Body: body, Items: []chunks.Item{{Pos: len(head) + len(body), Data: make([]byte, 200)}},
	}}
	_ = q.Plan(c)  // nothing to register
	_ = q.Begin(c) // there is a credit
	send, _, _ := q.AppendCall(nil, c)

	var h rpcrdma.Header
	n, _ := h.Decode(send, nil)
	call, err := rpcrdma.UnpadCall(&h, send, chunks.NFSv3)
	fmt.Println(h.Type, h.Align, h.Thresh, len(send)-n, "octets with pads,", len(call), "without", err)
	// Output: RDMA_MSGP 64 200 292 octets with pads, 268 without <nil>
}

// A server tells by this error which Config.Binding it lacks.
func ExampleBindingError() {
	err := error(&rpcrdma.BindingError{Prog: 400100, Vers: 1, Proc: 2})
	fmt.Println(errors.Is(err, rpcrdma.ErrNotEligible), err)
	// Output:
	// true no Binding lets data of program 0x61ae4, version 1, procedure 2 travel in chunks (set Config.Binding to one that does)
}
