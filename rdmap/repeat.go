package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// repeats reports whether u is a Send like the one before it and needs only a receive: both are whole
// in their segments, are delivered where they lie, and differ only in MSN and payload, so that what was
// checked for the first holds for this one. Anything else, and every error, is for input. So are
// messages after those that are put off, and messages that are kept, because they need memory of
// their own, although the Send before may have had none, if it was an RTR.
func (r *receiver) repeats(u []byte) bool {
	return (r.now == verbs.OpSend || r.now == verbs.OpSendSE) && r.ddp.Repeats(u) && r.off.len() == 0 &&
		r.shared == nil && !r.keep && len(u)-ddp.UntaggedLen <= r.size && r.recvs.Load() > 0
}

// repeat is input for a Send for which repeats holds. It delivers the payload in m: to fill in an event
// and read it again at once would take longer than everything else.
func (r *receiver) repeat(payload []byte, m *verbs.Message) {
	r.recvs.Add(-1)
	r.ddp.Repeat(len(payload))
	r.in.fpdus++
	r.in.message(r.now, 1)
	m.Op, m.Data, m.Invalidated, m.Solicited = r.now, payload, 0, r.now.Solicited()
}
