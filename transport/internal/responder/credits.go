package responder

import (
	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/internal/admit"
)

// creditShare is the part of a pool that a Responder has; Responder.mu guards it.
type creditShare struct {
	from  *admit.Pool // see admit.Credits
	pool  *admit.Pool // from, once joined; nil: it always grants Config.Credits
	part  credits.Share
	burst int // calls received since the latest replies were flushed
}

// seen counts a call that has come. Calls whose replies wait for the end of the burst are also in
// flight. The caller holds rc.mu.
func (rc *Responder) seen() {
	if s := &rc.share; s.pool != nil {
		s.burst++
		s.part.Seen(max(s.burst, rc.resp.Credits().Serving()))
	}
}

// limitGrant sets the largest grant for the reply to x, and posts the receives for it before it is
// granted. The caller holds rc.mu.
func (rc *Responder) limitGrant(x *Call) {
	s := &rc.share
	if s.pool == nil {
		return
	}
	c := rc.resp.Credits()
	unanswered := c.Outstanding() + c.Serving()
	if rc.exposes != nil {
		unanswered++ // the reply may still be withheld
	}
	// A grant that is lowered takes effect with this reply only: what the client holds until then stays promised.
	c.SetLimit(s.pool.Answer(&s.part, min(x.In.Header.Credit, uint32(rc.cfg.Credits)), unanswered))
	rc.postReceives()
}

// overCredit reports whether the client has far more calls in flight than it was granted. The
// caller holds rc.mu.
func (rc *Responder) overCredit() bool {
	// Twice, because clients send ahead of a grant that was lowered meanwhile, and some count credits their own way.
	most := 2*rc.cfg.Credits + 1
	if s := &rc.share; s.pool != nil {
		most = min(most, 2*s.part.Held()+credits.Slack)
	}
	return rc.resp.Credits().Serving() > most
}

// pooledUpcalls is a Responder whose grants follow its load.
type pooledUpcalls struct{ *Responder }

var _ rdmap.IdleHandler = pooledUpcalls{}

// HandleIdle is called when all staged messages were handled: the replies are on their way.
func (h pooledUpcalls) HandleIdle(*rdmap.Conn) {
	rc := h.Responder
	rc.mu.Lock()
	rc.share.burst = 0 // what is in flight from now on, Serving knows
	rc.mu.Unlock()
}
