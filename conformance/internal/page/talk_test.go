package page

import (
	"net/netip"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// talk makes events of a connection as the decoder would, and gives them to a page.
type talk struct {
	page  *Builder
	conn  *decode.ConnInfo
	frame int
	off   [2]uint64
	msn   [2]uint32
}

func newTalk(p *Builder, id int) *talk {
	t := &talk{page: p, conn: &decode.ConnInfo{
		ID: id, Opener: netip.MustParseAddrPort("192.0.2.1:1023"), Accepter: netip.MustParseAddrPort("192.0.2.2:20049"), ULP: decode.ULPRPCRDMA,
	}}
	for d := range decode.Dir(2) {
		s := &decode.Startup{IsReply: d == decode.FromAccepter, Flags: 0x10}
		s.Rev, s.Enhanced, s.Word = 2, true, mpa.Enhanced{IRD: 16, ORD: 16}
		t.say(&decode.Event{Kind: decode.KindStartup, Dir: d, Startup: s, Raw: make([]byte, 24)})
	}
	return t
}

// say completes an event and hands it over; each is a packet, a microsecond after the one before.
func (t *talk) say(ev *decode.Event) *decode.Event {
	t.frame++
	ev.Conn, ev.Frame, ev.First = t.conn, t.frame, t.frame
	ev.Time = time.Unix(1, int64(t.frame)*1000)
	ev.Offset, ev.Len = t.off[ev.Dir], len(ev.Raw)
	t.off[ev.Dir] += uint64(ev.Len)
	t.page.Event(ev)
	return ev
}

// fpdu says one FPDU with a segment.
func (t *talk) fpdu(dir decode.Dir, op verbs.Opcode, seg ddp.Segment, payload string, more func(*decode.Event)) *decode.Event {
	seg.Tagged = op.Tagged()
	ulpdu := make([]byte, seg.HeaderLen()+len(payload))
	copy(ulpdu[seg.HeaderLen():], payload)
	raw := append(make([]byte, mpa.HeaderLen), ulpdu...)
	raw = append(raw, make([]byte, mpa.FPDULen(len(ulpdu))-len(raw))...)
	ev := &decode.Event{
		Kind: decode.KindFPDU, Dir: dir, Raw: raw, FPDU: &decode.FPDU{ULPDU: ulpdu},
		DDP: &decode.DDP{Segment: seg, Payload: []byte(payload)}, RDMAP: &decode.RDMAP{Op: op, Version: 1},
	}
	if more != nil {
		more(ev)
	}
	return t.say(ev)
}

// send says a Send with an RPC.
func (t *talk) send(dir decode.Dir, h *rpcrdma.Header, r *decode.RPC, payload string) *decode.Event {
	t.msn[dir]++
	h.Vers = rpcrdma.Version
	return t.fpdu(dir, verbs.OpSend, ddp.Segment{Last: true, MSN: t.msn[dir]}, payload, func(ev *decode.Event) {
		ev.Message = &decode.Message{Op: verbs.OpSend, MSN: t.msn[dir], Payload: []byte(payload), Segments: 1, First: t.frame + 1}
		ev.Header, ev.RPC = h, r
	})
}

// read says a READ: the call with a Write chunk, the RDMA Write in two segments, the reply.
func (t *talk) read(xid uint32) {
	tag := chunks.Segment{Handle: chunks.Handle(xid), Length: 2000, Offset: 4096}
	lists := chunks.Lists{Write: []chunks.WriteChunk{{tag}}}
	t.send(decode.FromOpener, &rpcrdma.Header{XID: xid, Credit: 32, Lists: lists}, &decode.RPC{XID: xid, Name: "NFSv3 READ"}, "call")
	t.fpdu(decode.FromAccepter, verbs.OpWrite, ddp.Segment{STag: ddp.STag(xid), TO: 4096}, string(make([]byte, 1000)), nil)
	t.fpdu(decode.FromAccepter, verbs.OpWrite, ddp.Segment{STag: ddp.STag(xid), TO: 5096, Last: true}, string(make([]byte, 1000)), nil)
	t.send(decode.FromAccepter, &rpcrdma.Header{XID: xid, Credit: 16, Lists: lists},
		&decode.RPC{XID: xid, IsReply: true, Name: "NFSv3 READ", Status: "NFS3_OK"}, "reply")
}

// violation says that the last event breaks a rule.
func (t *talk) violation(r *judge.Rule, dir decode.Dir, detail string) *judge.Violation {
	return &judge.Violation{Rule: r, Conn: t.conn, Dir: dir, Frame: t.frame, Offset: t.off[dir] - 1, Detail: detail}
}

// reportOf makes a judge's report of violations.
func reportOf(found []*judge.Violation) *judge.Report {
	rep := &judge.Report{Violations: found}
	for _, v := range found {
		rep.Connections = append(rep.Connections, &judge.ConnReport{
			Info: v.Conn, Counts: map[string]int{v.Rule.ID: 1}, Unknown: []string{"what was said before"},
		})
	}
	return rep
}

// readList is one Read segment.
func readList(handle uint32, n uint32) []chunks.ReadSegment {
	return []chunks.ReadSegment{{Position: 4, Segment: chunks.Segment{Handle: chunks.Handle(handle), Length: n}}}
}
