package responder

import (
	"net"

	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
)

// offerBackward switches the direction on for a client with these private data.
func (rc *Responder) offerBackward(private []byte) {
	if rc.cfg.BackwardCredits == 0 {
		return
	}
	// Off until the client has said that it takes such calls, at the start-up or to an upper layer (RFC 8167 Section 5.3).
	rc.Backward = rpc.NewBackward(rc.backwardCaller)
	if _, ok := rpcrdma.ParseBackwardData(private); ok {
		rc.Backward.Enable()
	}
}

// backwardCaller makes the requester of the backward direction at its first use.
func (rc *Responder) backwardCaller() (rpc.Caller, error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.Requester != nil {
		return rc.Requester, nil
	}
	addr := rc.Conn.RemoteAddr().String()
	if rc.gone {
		return nil, rpc.AsOpError(rpc.OpCall, addr, net.ErrClosed)
	}
	cfg := rc.cfg.Requester
	cfg.Credits = rc.cfg.BackwardCredits
	c := requester.New(cfg, addr, rc.Ctr.OfBackward(), rc)
	c.Attach(rc.Conn)
	// A backward call has the size limit of a forward reply, and vice versa (RFC 8167 Section 4).
	if err := c.Start(rc.resp.Config().SendSize, rc.recvSize); err != nil {
		return nil, err
	}
	rc.Requester = c
	return c, nil
}

// ExpectReply implements Receives.
func (rc *Responder) ExpectReply() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Credits().Expect(1)
	rc.postReceives() // before the call leaves: its reply must find one
}

// UnexpectReply implements Receives.
func (rc *Responder) UnexpectReply() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Credits().Unexpect(1)
}

// replied handles a reply to a backward call, or one that nobody expects.
func (rc *Responder) replied(conn *rdmap.Conn, m *verbs.Message) {
	rc.mu.Lock()
	rc.resp.Credits().ReceivedOther() // it has used a receive up, but is no call
	rc.postReceives()
	c := rc.Requester
	rc.mu.Unlock()
	if c == nil {
		rc.Ctr.Dropped.Add(1)
		return
	}
	c.Receive(conn, m)
}

// TakeBackward makes the machine of a client's responder, for which receives have been posted.
func (rc *Responder) TakeBackward() (err error) {
	rc.resp, err = rpcrdma.NewResponder(rpcrdma.ResponderConfig{
		Credits: uint32(rc.cfg.Credits), Limits: requester.Limits(rc.cfg.MaxPayload), NoChunks: true, Bidirectional: true,
	})
	if err != nil {
		return err
	}
	rc.resp.Credits().Posted(rc.cfg.Credits + credits.Slack)
	return nil
}

// Thresholds applies the inline thresholds of the forward direction: a reply has that of a call
// (RFC 8167 Section 4).
func (rc *Responder) Thresholds(send int) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) { c.SendSize = send })
}

// MostBackward returns how many octets a backward call may have: it goes inline.
func (rc *Responder) MostBackward() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.resp.Config().SendSize
}
