package transport_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestGrantOrder: two goroutines may handle two replies at the same time. Whichever comes to the
// lock first, it is the grant of the later reply that counts (RFC 8166 Section 3.3.1).
func TestGrantOrder(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		calls := make(chan uint32, 2)
		reply := func(xid, grant uint32) []byte { return append(words(xid, 1, grant, 0, 0, 0, 0), rpcReply(xid)...) }
		first := true
		c := rawServer(t, nil, nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
			if first {
				first = false
				p.send(reply(h.XID, 2))
				return
			}
			calls <- h.XID
		})
		mustDo(t, c, &firstCall)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- try(t, c, &firstCall) }()
		}
		replies := []*verbs.Message{{Data: reply(<-calls, 8), Order: 101}, {Data: reply(<-calls, 3), Order: 103}}
		if swapped {
			slices.Reverse(replies)
		}
		for _, m := range replies {
			c.Requester().Receive(c.Conn(), m)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := c.Stats().Credits; n != 3 {
			t.Errorf("%d credits after grants of 8 and 3, swapped: %v", n, swapped)
		}
	}
}

// TestFirstCall: the first calls of a connection find out the grant before they are sent, so that one of them that never
// ends holds up none of the others; a NULL call that the server refuses tells it as well.
func TestFirstCall(t *testing.T) {
	for _, denied := range []bool{false, true} {
		h := newEcho()
		s, addr := startServer(t, rpc.HandlerFunc(func(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
			if denied && req.Proc == procNull {
				resp.Stat = xdr.ProcUnavail
				return
			}
			h.ServeRPC(ctx, req, resp)
		}), nil)
		c := dial(t, addr, nil)
		var blocked sync.WaitGroup
		for range 3 {
			blocked.Go(func() {
				if err := try(t, c, &blockCall); err != nil {
					t.Error(err)
				}
			})
		}
		late := testCtx(t).Done()
		for range 3 {
			select {
			case <-h.enter:
			case <-late:
				close(h.leave)
				c.Close()
				blocked.Wait()
				t.Fatal("a first call that does not end holds up another")
			}
		}
		mustDo(t, c, wordCall(procList, 3))
		if st := s.Stats(); st.Calls != 5 {
			t.Errorf("denied %v: %d calls", denied, st.Calls)
		}
		close(h.leave)
		blocked.Wait()
	}
}
