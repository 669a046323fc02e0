package rdmap

import "github.com/stag-rdma/stag/rdmap/ddp"

// repeats reports whether u is a Send like the one before it and needs only a receive: both are whole
// in their segments, are delivered where they lie, and differ only in MSN and payload, so that what was
// checked for the first holds for this one. Anything else, and every error, is for accept. So are
// messages that are kept, because they need memory of their own, although the Send before may have had
// none, if it was an RTR.
func (r *receiver) repeats(u []byte) bool {
	return (r.now == OpSend || r.now == OpSendSE) && r.ddp.Repeats(u) &&
		r.shared == nil && !r.keep && len(u)-ddp.UntaggedLen <= r.size && r.recvs.Load() > 0
}

// repeat delivers the payload of a Send for which repeats holds.
func (r *receiver) repeat(payload []byte) *event {
	r.recvs.Add(-1)
	r.ddp.Repeat(len(payload))
	r.in.fpdus++
	r.in.message(r.now, 1)
	ev := &r.ev
	ev.kind, ev.settled = evMessage, false
	ev.msg.Op, ev.msg.Data, ev.msg.Solicited = r.now, payload, r.now.Solicited()
	return ev
}
