package page

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// written returns a page and the data in it.
func written(t *testing.T, p *Builder, found ...*judge.Violation) (string, *payload) {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b, reportOf(found)); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindStringSubmatch(b.String())
	d := new(payload)
	if err := json.Unmarshal([]byte(m[1]), d); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := New("", nil)
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			t.Fatal(err)
		}
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
