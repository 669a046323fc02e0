package page

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// written returns a page and the data in it.
func written(t *testing.T, p *Builder, found ...*judge.Violation) (string, *payload) {
	t.Helper()
	var b bytes.Buffer
	noErr(t, p.Write(&b, reportOf(found)))
	m := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindStringSubmatch(b.String())
	d := new(payload)
	noErr(t, json.Unmarshal([]byte(m[1]), d))
	return b.String(), d
}

func TestRows(t *testing.T) {
	p, v := reads(2, 1)
	_, d := written(t, p, v)
	rows := d.Conns[0].Rows
	if len(rows) != 8 {
		t.Fatalf("%d rows, want two startup frames and three for each READ", len(rows))
	}
	call, write, reply := rows[2], rows[3], rows[4]
	if write.Segments != 2 || write.Len != 2000 || write.First != 4 || write.Frame != 5 || write.Lasted != 1000 {
		t.Errorf("two segments are not one RDMA Write: %+v", write)
	}
	if call.Peer != 5 || reply.Peer != 3 || write.Peer != 3 || write.XID != call.XID {
		t.Errorf("call, Write and reply do not know each other: %d %d %d", call.Peer, write.Peer, reply.Peer)
	}
	if *call.Open != 1 || *reply.Open != 0 || *call.Credit != 32 || *reply.Credit != 16 {
		t.Errorf("credits and waiting calls: %d %d %d %d", *call.Open, *reply.Open, *call.Credit, *reply.Credit)
	}
	if m := d.Conns[0].Marks; len(m) != 1 || m[0].Row != 7 || len(rows[7].Marks) != 1 {
		t.Errorf("the violation is not on the last row: %+v", m)
	}
}

// TestReads: a Read Request and its Response have the XID of the call whose chunk they move.
func TestReads(t *testing.T) {
	p := New("", nil)
	talk := newTalk(p, 1)
	h := &rpcrdma.Header{XID: 9, Credit: 1}
	h.Read = readList(0x77, 100)
	talk.send(decode.FromOpener, h, &decode.RPC{XID: 9}, "call")
	talk.fpdu(decode.FromAccepter, verbs.OpReadRequest, ddp.Segment{QN: 1, MSN: 1, Last: true}, string(make([]byte, 28)), func(ev *decode.Event) {
		ev.Message = &decode.Message{Op: verbs.OpReadRequest, Read: &decode.ReadRequest{SinkSTag: 0x88, Size: 100, SourceSTag: 0x77}}
	})
	talk.fpdu(decode.FromOpener, verbs.OpReadResponse, ddp.Segment{STag: 0x88, Last: true}, string(make([]byte, 100)), nil)
	_, d := written(t, p)
	for _, r := range d.Conns[0].Rows[3:] {
		if r.XID != "0x00000009" {
			t.Errorf("%s serves %q", r.Op, r.XID)
		}
	}
}

// TestUnfinished: a message that never ends, or that another interrupts, has its arrow.
func TestUnfinished(t *testing.T) {
	p := New("", nil)
	talk := newTalk(p, 1)
	talk.fpdu(decode.FromOpener, verbs.OpWrite, ddp.Segment{STag: 1, TO: 0}, "never finished", nil)
	talk.fpdu(decode.FromOpener, verbs.OpWrite, ddp.Segment{STag: 1, TO: 500}, "nor this one", nil)
	talk.fpdu(decode.FromOpener, verbs.OpSend, ddp.Segment{MSN: 1}, "nor this", nil)
	talk.fpdu(decode.FromOpener, verbs.OpSend, ddp.Segment{MSN: 2, Last: true}, "this is", nil)
	_, d := written(t, p)
	var frames []int
	for _, r := range d.Conns[0].Rows {
		frames = append(frames, r.Frame)
	}
	if want := []int{1, 2, 3, 4, 5, 6}; len(frames) != len(want) || frames[2] != 3 || frames[5] != 6 {
		t.Errorf("frames %v, want %v", frames, want)
	}
}

func TestBounds(t *testing.T) {
	p := New("", &Options{MaxMessages: 10, MaxOctets: 8, MaxDetail: 2000})
	talk := newTalk(p, 1)
	for i := range 5 {
		talk.read(uint32(i))
	}
	late := newTalk(p, 2) // has no room
	v := late.violation(&zeroGrant, decode.FromOpener, "too late")
	_, d := written(t, p, v)
	if n := len(d.Conns[0].Rows); n != 10 {
		t.Errorf("%d rows, want 10", n)
	}
	if d.Hidden != 12 {
		t.Errorf("%d frames left out, want 12", d.Hidden)
	}
	detail := 0
	for _, r := range d.Conns[0].Rows {
		if len(r.Octets) > 8 {
			t.Errorf("%d octets", len(r.Octets))
		}
		detail += len(r.Fields) + len(r.Octets)
	}
	if detail > 2000 || detail < 1000 {
		t.Errorf("%d octets of detail, want up to 2000", detail)
	}
	if len(d.Conns) != 2 || d.Conns[1].Broken != 1 || d.Conns[1].Marks[0].Row != -1 {
		t.Error("a violation in messages that have no room is lost")
	}
}

// TestEscaped: no octet of a capture can end the data and begin something else.
func TestEscaped(t *testing.T) {
	p := New(hostile, nil)
	talk := newTalk(p, 1)
	talk.send(decode.FromOpener, &rpcrdma.Header{XID: 1}, &decode.RPC{Name: hostile}, hostile)
	text, d := written(t, p, talk.violation(&zeroGrant, decode.FromOpener, hostile))
	if strings.Contains(text, "<script>window") || strings.Contains(text, "<img") {
		t.Error("the page holds what the capture says as markup")
	}
	if d.Name != hostile || d.Conns[0].Marks[0].Detail != hostile {
		t.Errorf("it is not what was said: %q", d.Name)
	}
}

// TestStandsAlone: the page refers to nothing outside of it.
func TestStandsAlone(t *testing.T) {
	p, _ := reads(1, -1)
	text, _ := written(t, p)
	for _, m := range regexp.MustCompile(`(?i)(src|href|action)=|@import|url\(|fetch\(|https?://[^"'\s]*`).FindAllString(text, -1) {
		if m != "http://www.w3.org/2000/svg" { // the name of a kind of element
			t.Errorf("the page has %q", m)
		}
	}
}

// TestRoCE: a message of several packets is one arrow, in the words of InfiniBand.
func TestRoCE(t *testing.T) {
	f, err := os.Open("../../testdata/pcaps/r-roce-nfs3.pcap")
	noErr(t, err)
	defer f.Close()
	p := New("", nil)
	for ev, err := range decode.Events(f, nil) {
		noErr(t, err)
		p.Event(ev)
	}
	_, d := written(t, p)
	ops := make(map[string]int)
	for _, r := range d.Conns[0].Rows {
		ops[r.Op]++
		if r.Op == "RC RDMA Read Response" && (r.Segments != r.Len/1024 || r.XID == "") {
			t.Errorf("%d octets in %d packets, of call %q", r.Len, r.Segments, r.XID)
		}
	}
	want := map[string]int{
		"CM ConnectRequest": 1, "CM ConnectReply": 1, "RC Send": 31, "RC Send Invalidate": 1, "RC RDMA Write": 4, "RC RDMA Read Request": 4, "RC RDMA Read Response": 4,
	}
	if !maps.Equal(ops, want) || d.Conns[0].What != "RPC-over-RDMA, RoCE v2" {
		t.Errorf("%q: %v, want %v", d.Conns[0].What, ops, want)
	}
}

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

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
