package rpcrdma_test

import (
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
