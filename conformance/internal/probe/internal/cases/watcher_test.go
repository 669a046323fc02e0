package cases

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// sends returns the ULPDU of the first Send of the peer.
func sends(h rpcrdma.Header, msg ...byte) []byte {
	return untagged(sendOp, ddp.QNSend, 1, append(h.Append(nil), msg...))
}

func replyTo(xid uint32) []byte { return xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}) }

// TestWatcherBreaches: what no peer may do, whatever it receives.
func TestWatcherBreaches(t *testing.T) {
	room := chunks.Segment{Handle: 0x100, Length: 64, Offset: 8}
	good := rpcrdma.Header{XID: 7, Vers: 1, Credit: 1, Lists: chunks.Lists{Write: []chunks.WriteChunk{{{Handle: 0x100, Offset: 8}}}}}
	with := func(f func(h *rpcrdma.Header)) []byte {
		h := good
		f(&h)
		return sends(h, replyTo(7)...)
	}
	term := untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, words(0x12010000))
	for _, tt := range []struct {
		name string
		said []byte
		want string // in the breach; empty: there is none
	}{
		{"good", sends(good, replyTo(7)...), ""},
		{"no credit", with(func(h *rpcrdma.Header) { h.Credit = 0 }), "grants no credit"},
		{"another XID inside", sends(good, replyTo(8)...), "the XID of the reply"},
		{"a read list", with(func(h *rpcrdma.Header) { h.Read = []chunks.ReadSegment{{Position: 24, Segment: room}} }), "a read list"},
		{"no write chunk", with(func(h *rpcrdma.Header) { h.Write = nil }), "0 write chunks came back of 1"},
		{"another STag", with(func(h *rpcrdma.Header) { h.Write = []chunks.WriteChunk{{{Handle: 0x101, Offset: 8}}} }), "as another one"},
		{"a used chunk", with(func(h *rpcrdma.Header) { h.Write = []chunks.WriteChunk{{room}} }), "came back with 64"},
		{"a reply chunk", with(func(h *rpcrdma.Header) { h.HasReply = true }), "not offered"},
		{"ERR_VERS without version 1", sends(rpcrdma.Header{XID: 7, Vers: 2, Credit: 1, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrVers, Low: 2, High: 3}), "this peer speaks 1"},
		{"the second Send", untagged(sendOp, 0, 2, replyTo(7)), "message 2 at offset 0 of queue 0, want 1 at 0"},
		{"on queue 9", untagged(sendOp, 9, 1, replyTo(7)), "queue 9"},
		{"another DDP version", append([]byte{0x42}, sends(good)[1:]...), "cannot be read"},
		{"too short", []byte{0x41, 0x43}, "cannot be read"},
		{"a Terminate", term, ""},
		{"a Terminate that nobody knows", untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, words(0x77770000)), "not registered"},
		{"a Terminate of 3 octets", untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, make([]byte, 3)), "cannot be read"},
		{"a Write that fits", tagged(verbs.OpWrite, 0x100, 8, make([]byte, 64)), ""},
		{"a Write past the end", tagged(verbs.OpWrite, 0x100, 9, make([]byte, 64)), "it wrote 64 octets at 0x9"},
		{"a Write before the beginning", tagged(verbs.OpWrite, 0x100, 7, make([]byte, 8)), "it wrote 8 octets at 0x7"},
		{"a Write that wraps", tagged(verbs.OpWrite, 0x100, ^uint64(0), make([]byte, 8)), "it wrote 8 octets at 0xffffffffffffffff"},
		{"a Write to what was bait", tagged(verbs.OpWrite, 0x200, 0, make([]byte, 4)), ""},
	} {
		w := Watch(&Try{
			Subjects: []uint32{7}, Lists: chunks.Lists{Write: []chunks.WriteChunk{{room}}},
			Memory: []Memory{{Segment: room}}, Said: []chunks.Segment{{Handle: 0x200, Length: 4}},
		})
		w.Sent()
		w.ULPDU(tt.said)
		got := strings.Join(w.Seen.Breaches, "; ")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	early := Watch(&Try{})
	early.ULPDU(term)
	early.ULPDU(untagged(sendOp, 0, 1, replyTo(7)))
	if got := strings.Join(early.Seen.Breaches, "; "); !strings.Contains(got, "before it had received one") || !strings.Contains(got, "after its Terminate") {
		t.Errorf("%q", got)
	}
}

// TestWatcherReads: how the peer's RDMA Reads are answered.
func TestWatcherReads(t *testing.T) {
	data := []byte("01234567")
	request := func(to uint64, size uint32, stag ddp.STag) []byte {
		b := readRequest(size, stag, to)
		put32(b, 0, 0xbeef00)
		return untagged(uint8(verbs.OpReadRequest), ddp.QNRequest, 1, b)
	}
	for _, tt := range []struct {
		name string
		how  Reading
		ask  []byte
		want []byte // the first ULPDU that answers; nil: none
	}{
		{"whole", ReadWhole, request(102, 4, 5), tagged(verbs.OpReadResponse, 0xbeef00, 0, data[2:6])},
		{"short", ReadShort, request(100, 8, 5), tagged(verbs.OpReadResponse, 0xbeef00, 0, data[:4])},
		{"long", ReadLong, request(100, 4, 5), tagged(verbs.OpReadResponse, 0xbeef00, 0, append([]byte("0123"), 0, 0, 0, 0))},
		{"elsewhere", ReadElsewhere, request(100, 4, 5), tagged(verbs.OpReadResponse, 0xbeef00^0xffff00, 0, data[:4])},
		{"past the end", ReadPast, request(100, 4, 5), tagged(verbs.OpReadResponse, 0xbeef00, 4, data[:4])},
		{"never", ReadNever, request(100, 4, 5), nil},
		{"refused", ReadRefused, request(100, 4, 5), untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, words(0x01000000))},
		{"another STag", ReadWhole, request(100, 4, 6), untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, 1, words(0x01000000))},
	} {
		w := Watch(&Try{
			Memory: []Memory{{Segment: chunks.Segment{Handle: 5, Length: 8, Offset: 100}, Data: data, Reading: tt.how}},
			Said:   []chunks.Segment{{Handle: 5, Length: 8, Offset: 100}},
		})
		w.Sent()
		var got []byte
		if out := w.ULPDU(tt.ask); len(out) > 0 {
			got = out[0]
		}
		if !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
		if offered := tt.name != "another STag"; offered != (len(w.Seen.Breaches) == 0) {
			t.Errorf("%s: %q", tt.name, w.Seen.Breaches)
		}
	}
}

// TestReplyBreaches: an accepting MPA Reply has to follow from the Request.
func TestReplyBreaches(t *testing.T) {
	req := usual().Request
	for _, tt := range []struct {
		f    func(r *mpa.Reply)
		want string
	}{
		{func(*mpa.Reply) {}, ""},
		{func(r *mpa.Reply) { r.Rev = 3 }, "revision 3"},
		{func(r *mpa.Reply) { r.Enhanced = false }, "S of its Reply"},
		{func(r *mpa.Reply) { r.Word.PeerToPeer = true }, "A of its Reply"},
		{func(r *mpa.Reply) { r.Word.ORD = 17 }, "ORD of its Reply is 17"},
		{func(r *mpa.Reply) { r.Word.ORD = 16 }, ""},
		{func(r *mpa.Reply) { r.Word.ORD = mpa.NotNegotiated }, ""},
		{func(r *mpa.Reply) { r.Rejected, r.Rev = true, 9 }, ""},
	} {
		rep := mpa.Reply{Frame: mpa.Frame{Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{IRD: 4, ORD: 4}}}
		tt.f(&rep)
		w := Watch(&Try{})
		w.Startup(&req, &rep)
		if got := strings.Join(w.Seen.Breaches, "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", rep, got, tt.want)
		}
	}
}

// TestDeclared: what a header says, also one that no decoder takes.
func TestDeclared(t *testing.T) {
	s := func(h, n uint32, off uint64) chunks.Segment {
		return chunks.Segment{Handle: chunks.Handle(h), Length: n, Offset: off}
	}
	for _, tt := range []struct {
		msg  []byte
		want []chunks.Segment
	}{
		{words(1, 1, 8, 0, 0, 0, 0), nil},
		{words(1, 1), nil},
		{words(1, 1, 8, 0, 1, 40, 5, 6, 0, 7, 0, 0, 0), []chunks.Segment{s(5, 6, 7)}},
		{words(1, 9, 8, 0, 77, 40, 5, ^uint32(0), ^uint32(0), ^uint32(0), 0, 1, 2, 1, 2, 0, 3, 4, 5, 0, 6, 0, 1, 1, 7, 8, 0, 9), []chunks.Segment{
			s(5, ^uint32(0), ^uint64(0)), s(1, 2, 3), s(4, 5, 6), s(7, 8, 9),
		}},
		{words(1, 1, 8, 0, 0, 1, ^uint32(0), 1, 2, 0, 3, 4), []chunks.Segment{s(1, 2, 3)}},
	} {
		got := declared(tt.msg)
		if len(got) != len(tt.want) {
			t.Errorf("%x: %+v", tt.msg, got)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%x: %+v, want %+v", tt.msg, got[i], tt.want[i])
			}
		}
	}
}
