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

// A READ of 64 KiB: the plan asks for the sink to be registered.
func ExampleRequester_Plan() {
	q, _ := rpcrdma.NewRequester(rpcrdma.RequesterConfig{SendSize: 4096, RecvSize: 4096})
	c := &rpcrdma.Call{
		XID: 1, Prog: 100003, Vers: 3, Proc: 6,
		Message:  chunks.Message{Head: make([]byte, 40), Body: make([]byte, 48)},
		Sink:     65536,
		MaxReply: 24 + 104,
	}
	fmt.Println(q.Plan(c), c.Plan.Sink, c.Plan.Reply)
	c.Memory.Sink = chunks.WriteChunk{{Handle: 0xb1, Length: 65536}}
	head, _, err := q.AppendCall(nil, c)
	fmt.Println(len(head), err)
	// Output:
	// <nil> true 0
	// 140 <nil>
}

// A call with a read chunk says where everything goes before anything is pulled.
func ExampleResponder_Receive() {
	p, _ := rpcrdma.NewResponder(rpcrdma.ResponderConfig{Binding: chunks.NFSv3})
	p.Credits().Posted(p.Credits().Need())

	h := rpcrdma.Header{XID: 1, Vers: rpcrdma.Version, Credit: 1, Lists: chunks.Lists{
		Read: []chunks.ReadSegment{{Position: 68, Segment: chunks.Segment{Handle: 0xa1, Length: 5}}},
	}}
	send := h.Append(nil)
	send = xdr.AppendCall(send, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 100003, Vers: 3, Proc: 7})
	send = xdr.AppendOpaque(send, []byte("file"))
	for _, w := range []uint32{0, 0, 5, 2, 5} { // offset, count, stable, count of data
		send = xdr.AppendUint32(send, w)
	}

	var in rpcrdma.Inbound
	fmt.Println(p.Receive(send, &in), in.Layout.Total)
	buf := make([]byte, in.Layout.Total)
	in.Layout.Place(buf, in.Payload)
	for _, r := range in.Layout.Pulls {
		fmt.Printf("read %d octets of %v to %d\n", r.Length, r.Handle, r.Dst)
		copy(buf[r.Dst:], "hello")
	}
	fmt.Println(p.Pulled(&in, buf))
	fmt.Printf("%q\n", in.Args[28:])
	// Output:
	// pull 76
	// read 5 octets of 0x000000a1 to 68
	// dispatch
	// "hello\x00\x00\x00"
}

// A header of another version is answered with ERR_VERS.
func ExampleResponder_AppendAnswer() {
	p, _ := rpcrdma.NewResponder(rpcrdma.ResponderConfig{Credits: 32})
	p.Credits().Posted(p.Credits().Need())
	send := (&rpcrdma.Header{XID: 1, Vers: 2, Credit: 32}).Append(nil)

	var in rpcrdma.Inbound
	fmt.Println(p.Receive(send, &in), in.Err)
	p.Credits().Posted(p.Credits().Need())
	fmt.Printf("%x\n", p.AppendAnswer(nil, &in))
	// Output:
	// answer rpcrdma: header: unknown rdma_vers (ERR_VERS)
	// 00000001000000020000002000000004000000010000000100000001
}

func ExampleResponder_Reply() {
	p, _ := rpcrdma.NewResponder(rpcrdma.ResponderConfig{RemoteInvalidate: true})
	p.Credits().Posted(p.Credits().Need())
	h := rpcrdma.Header{XID: 1, Vers: rpcrdma.Version, Credit: 1, Lists: chunks.Lists{
		Write: []chunks.WriteChunk{{{Handle: 0xb1, Length: 8192, Offset: 0x1000}}},
	}}
	send := xdr.AppendCall(h.Append(nil), &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 100003, Vers: 3, Proc: 6})
	var in rpcrdma.Inbound
	p.Receive(send, &in)
	p.Credits().Posted(p.Credits().Need())

	m := chunks.Message{
		Head:  xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 1}),
		Body:  make([]byte, 20),
		Items: []chunks.Item{{Pos: 44, Data: make([]byte, 5000)}},
	}
	var out rpcrdma.Reply
	p.Reply(nil, &in, &m, &out)
	for _, w := range out.Writes {
		fmt.Printf("write %d octets to %v+%#x\n", len(w.Data), w.Handle, w.Offset)
	}
	fmt.Println("send", len(out.Head), "octets, invalidate", out.Invalidate, out.HasInvalidate)
	// Output:
	// write 5000 octets to 0x000000b1+0x1000
	// send 96 octets, invalidate 0x000000b1 true
}

func ExampleHeader_Decode() {
	b := (&rpcrdma.Header{XID: 7, Vers: rpcrdma.Version, Credit: 32}).Append(nil)
	b = append(b, "the RPC message"...)
	var h rpcrdma.Header
	n, err := h.Decode(b, nil)
	fmt.Println(h.Type, h.Credit, n, err)
	_, err = h.Decode(b[:20], nil)
	fmt.Println(err)
	// Output:
	// RDMA_MSG 32 28 <nil>
	// rpcrdma: header: too short (drop)
}

func ExamplePrivateData_Inline() {
	client := rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 8192, RecvSize: 4096}
	server, ok := rpcrdma.ParsePrivateData([]byte{0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3})
	call, reply := client.Inline(server)
	fmt.Println(ok, call, reply, client.MayInvalidate(server))
	// Output: true 4096 4096 false
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

// A refusal has no item that could be padded but the verifier.
func ExampleUnpadReply() {
	h := rpcrdma.Header{XID: 1, Vers: rpcrdma.Version, Credit: 1, Type: rpcrdma.MsgTypeMsgP, Align: 64, Thresh: 100}
	send := xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: 1, Accept: xdr.GarbageArgs})
	reply, err := rpcrdma.UnpadReply(&h, send, chunks.NFSv3, 100003, 3, 7)
	fmt.Println(len(reply), err)
	// Output: 24 <nil>
}

// Two replies whose order was lost on the way to the machine: the grant of the later one stays.
func ExampleRequester_ReceiveLate() {
	q, _ := rpcrdma.NewRequester(rpcrdma.RequesterConfig{Credits: 8})
	reply := func(xid, credits uint32) []byte {
		h := rpcrdma.Header{XID: xid, Vers: rpcrdma.Version, Credit: credits, Type: rpcrdma.MsgTypeMsg}
		return xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: xid})
	}
	call := func(xid uint32) {
		head := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 400100, Vers: 1})
		c := &rpcrdma.Call{XID: xid, Prog: 400100, Vers: 1, Message: chunks.Message{Head: head}}
		_ = q.Plan(c)
		fmt.Println(q.Begin(c))
		_, _, _ = q.AppendCall(nil, c) // the Send
	}
	call(1)
	_, _ = q.Receive(reply(1, 2))
	call(2)
	call(3)
	_, _ = q.Receive(reply(3, 2))
	_, _ = q.ReceiveLate(reply(2, 8)) // came before the other
	fmt.Println(q.InFlight(), q.Window())
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// 0 2
}

// A server tells by this error which Config.Binding it lacks.
func ExampleBindingError() {
	err := error(&rpcrdma.BindingError{Prog: 400100, Vers: 1, Proc: 2})
	fmt.Println(errors.Is(err, rpcrdma.ErrNotEligible), err)
	// Output:
	// true no Binding lets data of program 400100, version 1, procedure 2 travel in chunks (set Config.Binding to one that does)
}
