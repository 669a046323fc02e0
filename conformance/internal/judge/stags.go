package judge

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// stags judges the life of STags as far as remote invalidation shows it (RFC 5040 Section 5.3): after a Send
// with Invalidate nobody uses the STag until its owner may have advertised it again.
//
// Only for RPC-over-RDMA is it known what the upper layer advertises. On other connections every message of
// the owner may advertise anything, so it ends what is known about the owner's STags.
type stags struct {
	*conn
	dead [2]tags // by the direction of the owner
}

// tags is a bounded set of STags, with the packets that invalidated them.
type tags struct {
	at    map[ddp.STag]int
	order []ddp.STag // oldest first; may hold some that at no longer has
}

func (m *stags) event(ev *decode.Event) {
	switch {
	case ev.Kind == decode.KindUndecoded || m.lost[ev.Dir]:
		m.dead[ev.Dir] = tags{}
	case ev.RDMAP == nil || ev.FPDU != nil && ev.FPDU.CRCState == decode.CRCBad:
	default:
		m.use(ev)
		m.advertise(ev)
		if msg := ev.Message; msg != nil && msg.Op.Invalidates() {
			m.invalidate(ev)
		}
	}
}

func (m *stags) end() {}

// use judges the STags of the peer that a segment or a request names.
func (m *stags) use(ev *decode.Event) {
	if ev.DDP.Tagged {
		if len(ev.DDP.Payload) > 0 {
			m.used(ev, ev.DDP.STag)
		}
		return
	}
	switch msg := ev.Message; {
	case msg == nil || msg.QN != queueRequests:
	case msg.Read != nil && msg.Read.Size > 0:
		m.used(ev, msg.Read.SourceSTag)
	case msg.Extension != nil && (msg.Op == verbs.OpAtomicRequest || msg.Extension.Len > 0):
		m.used(ev, msg.Extension.STag)
	}
}

// used judges one.
func (m *stags) used(ev *decode.Event, tag ddp.STag) {
	if frame, ok := m.dead[1-ev.Dir].at[tag]; ok && m.found == 0 {
		m.violateAfter(m.rpc.unwritten(ev), ev.Dir, "RDMAP-040", "STag %v, invalidated in frame %d", tag, frame)
	}
}

// advertise records the sender's own STags that a message makes valid again.
func (m *stags) advertise(ev *decode.Event) {
	own := &m.dead[ev.Dir]
	if len(own.at) == 0 {
		return
	}
	switch {
	case ev.Message != nil && ev.Message.Read != nil:
		delete(own.at, ev.Message.Read.SinkSTag)
	case m.info.ULP == decode.ULPRPCRDMA && ev.Header != nil:
		own.listed(&ev.Header.Lists)
	case m.info.ULP == decode.ULPRPCRDMA && ev.DDP.Tagged: // data of the ULP's own messages
	case ev.DDP.Tagged || ev.DDP.QN == ddp.QNSend:
		*own = tags{}
	}
}

// listed removes the STags that chunk lists advertise.
func (t *tags) listed(l *chunks.Lists) {
	for _, s := range l.Read {
		delete(t.at, ddp.STag(s.Handle))
	}
	for _, w := range l.Write {
		for _, s := range w {
			delete(t.at, ddp.STag(s.Handle))
		}
	}
	for _, s := range l.Reply {
		delete(t.at, ddp.STag(s.Handle))
	}
}

// invalidate takes a Send with Invalidate.
func (m *stags) invalidate(ev *decode.Event) {
	t, tag := &m.dead[1-ev.Dir], ev.RDMAP.Invalidate
	if frame, ok := t.at[tag]; ok {
		m.accuse("RDMAP-041", "STag %v, invalidated in frame %d", tag, frame)
	}
	t.add(tag, ev.Frame, m.j.opt.MaxSTags)
}

// add enters an STag; if there are more than limit, the oldest is forgotten.
func (t *tags) add(tag ddp.STag, frame, limit int) {
	if t.at == nil {
		t.at = make(map[ddp.STag]int)
	}
	if _, ok := t.at[tag]; !ok {
		t.order = append(t.order, tag)
	}
	t.at[tag] = frame
	for len(t.order) > limit {
		delete(t.at, t.order[0])
		t.order = t.order[1:]
	}
}
