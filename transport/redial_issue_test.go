package transport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// redial.Config.Issue is told of a call once, before it is sent, with its XID, however often
// it is sent; its error ends the call, which is not sent.
func TestRedialIssue(t *testing.T) {
	w := newNetwork(rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		resp.Results = xdr.AppendUint32(resp.Results, req.XID)
	}), nil, nil)
	defer w.end()
	type issue struct{ xid, proc uint32 }
	var issued []issue
	refuse := errors.New("no note")
	r := quick(t, w, func(c *redial.Config) {
		c.Issue = func(_ context.Context, xid uint32, call *rpc.Call) error {
			issued = append(issued, issue{xid, call.Proc})
			if call.Proc == 2 {
				return refuse
			}
			if call.Proc == 3 {
				w.cut() // it is sent on another connection
			}
			return nil
		}
	})
	defer r.Close()
	var reply rpc.Reply
	for n, proc := range []uint32{1, 3, 1} {
		noErr(t, r.Do(t.Context(), &rpc.Call{Prog: 400000, Vers: 1, Proc: proc, Repeatable: true}, &reply))
		if len(issued) != n+1 || issued[n] != (issue{reply.Header.XID, proc}) {
			t.Errorf("%v after reply %d to procedure %d", issued, reply.Header.XID, proc)
		}
		reply.Release()
	}
	sent := r.Stats().Calls
	if err := r.Do(t.Context(), &rpc.Call{Prog: 400000, Vers: 1, Proc: 2}, &reply); !errors.Is(err, refuse) {
		t.Error(err)
	}
	if n := r.Stats().Calls; n != sent {
		t.Errorf("%d calls were sent", n-sent)
	}
}
