package rdmap

import "github.com/stag-rdma/stag/rdmap/ddp"

// repeats reports whether u is a Send like the one before it that needs nothing but a
// receive: both are whole in their segment, delivered where they lie, and differ in MSN
// and payload alone, so that what was found right about the first holds for this one.
// Anything else, and every error, is for accept; so is all that is kept, which needs memory
// of its own: the Send before may have been an RTR, which takes none.
func (r *receiver) repeats(u []byte) bool {
	return (r.now == OpSend || r.now == OpSendSE) && r.ddp.Repeats(u) &&
		r.shared == nil && !r.keep && len(u)-ddp.UntaggedLen <= r.size && r.recvs.Load() > 0
}

// repeat delivers the payload of such a Send.
func (r *receiver) repeat(payload []byte) *event {
	r.recvs.Add(-1)
	r.ddp.Repeat(len(payload))
	r.in.fpdus++
	r.in.messages[r.now]++
	ev := &r.ev
	ev.kind, ev.settled = evMessage, false
	ev.msg.Op, ev.msg.Data, ev.msg.Solicited = r.now, payload, r.now.Solicited()
	return ev
}
