package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestBadTerminates: a Terminate that breaks rules itself is a local error. It is never answered with
// another one (RFC 5040 Section 5.4).
func TestBadTerminates(t *testing.T) {
	good := enginetest.ULPDU(t, enginetest.Unhex(t, enginetest.GoldTermSTag))
	whole := func(c verbs.TermCode) *verbs.Terminate {
		return &verbs.Terminate{Code: c, HasLength: true, SegLen: 30, DDP: bytes.Clone(good[24:38])}
	}
	for _, tt := range []struct {
		name string
		u    []byte
		told *verbs.Terminate // what the upper layer is told; nil if the Terminate is refused
	}{
		{"no payload", good[:18], nil},
		{"three octets", good[:21], nil},
		{"header announced and missing", good[:24], &verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30}},
		{"MSN 2", enginetest.Patch(t, enginetest.GoldTermSTag, 13, 2), nil},
		{"MO 4", enginetest.Patch(t, enginetest.GoldTermSTag, 17, 4), nil},
		{"as long as may be", append(bytes.Clone(good), make([]byte, 18+engine.MaxTerminate-len(good))...), whole(verbs.TermCode{Layer: 1, EType: 1, Code: 0})},
		{"longer than any", append(bytes.Clone(good), make([]byte, 400)...), nil},
		{"unregistered code", enginetest.Patch(t, enginetest.GoldTermSTag, 18, 0xff, 0xff), whole(verbs.TermCode{Layer: 15, EType: 15, Code: 255})},
	} {
		e := newEngine(engineConfig{recvs: 1, ord: 1})
		var d enginetest.Done
		sink := own(t, e, 8, enginetest.AllRights)
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink, Len: 8, Done: &d})
		e.output()
		u := bytes.Clone(tt.u)
		if ev, err := e.rcv.Input(u); err != nil {
			e.fail(err)
		} else {
			e.event(ev)
		}
		clear(u) // it was borrowed
		if out := e.output(); len(out) > 0 {
			t.Errorf("%s: answered with %x", tt.name, out)
		}
		if e.err == nil || d.N != 1 || d.Err == nil {
			t.Errorf("%s: error %v, work completed %d times with %v", tt.name, e.err, d.N, d.Err)
		}
		te, ok := errors.AsType[*verbs.TerminateError](e.err)
		if ok != (tt.told != nil) || ok && (te.Terminate.Code != tt.told.Code || !bytes.Equal(te.Terminate.Append(nil), tt.told.Append(nil))) {
			t.Errorf("%s: told %v", tt.name, e.err)
		}
	}
}

// TestBehindTerminate: what comes before the peer's Terminate counts, what comes after it does not,
// although all of it is in one read (RFC 5040 Section 5.4).
func TestBehindTerminate(t *testing.T) {
	e := newEngine(engineConfig{recvs: 3})
	mem, reg := e.register(t, 16, enginetest.AllRights)
	in := append(enginetest.Unhex(t, enginetest.GoldSend), enginetest.Unhex(t, enginetest.GoldTermOp)...)
	in = append(in, enginetest.FPDU(enginetest.Patch(t, enginetest.GoldSend, 13, 2))...)
	in = append(in, enginetest.FPDU(writeOf(t, reg.STag(), 0))...)
	e.input(in)
	if te, ok := errors.AsType[*verbs.TerminateError](e.err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 6}) {
		t.Errorf("ended with %v", e.err)
	}
	if len(e.got) != 1 || !bytes.Equal(mem, make([]byte, 16)) || len(e.output()) > 0 {
		t.Errorf("%d messages, memory %x", len(e.got), mem)
	}
}

// TestEveryShortULPDU: a ULPDU that is too short for its DDP header, whatever its length and bits,
// causes DDP's local catastrophic error; nothing beyond it is read.
func TestEveryShortULPDU(t *testing.T) {
	want := enginetest.WantTerminate(0x1000<<16, nil, false)
	for _, v := range []string{enginetest.GoldWrite, enginetest.GoldSend, enginetest.GoldReadReq, enginetest.GoldTermSTag} {
		u := enginetest.ULPDU(t, enginetest.Unhex(t, v))
		hdr := 18
		if u[0]&0x80 != 0 {
			hdr = 14
		}
		for n := range hdr {
			e := newEngine(engineConfig{recvs: 1, ird: 1})
			e.input(enginetest.FPDU(u[:n]))
			if out := e.output(); !bytes.Equal(out, want) {
				t.Errorf("%d octets of %x: answered with %x", n, u[:hdr], out)
			}
		}
	}
}

// TestLongULPDU: 64768 octets are the most that MPA allows, and 65535 the most that the length field can
// express. Even longer ones than MPA allows are framed correctly, and judged by their contents.
func TestLongULPDU(t *testing.T) {
	for _, n := range []int{64768, 64769, 65535} {
		e := newEngine(engineConfig{recvs: 2, size: 1 << 16})
		u := append(enginetest.ULPDU(t, enginetest.Unhex(t, enginetest.GoldSendZero)), make([]byte, n-18)...)
		u[13] = 1 // MSN
		next := enginetest.Patch(t, enginetest.GoldSend, 13, 2)
		e.input(append(enginetest.FPDU(u), enginetest.FPDU(next)...))
		if e.err != nil || len(e.got) != 2 || len(e.got[0].Data) != n-18 || string(e.got[1].Data) != "HELLO" {
			t.Errorf("%d octets: error %v, %d messages", n, e.err, len(e.got))
		}
	}
}

// TestReadResponseTooLong answers a Read with more octets than requested, in one segment and in
// several, and a Read of no octets with some: nothing is placed beyond the end.
func TestReadResponseTooLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		size uint32
		segs []int
	}{
		{"one segment", 16, []int{17}},
		{"the second segment", 16, []int{16, 1}},
		{"across the end", 16, []int{10, 10}},
		{"a Read of nothing", 0, []int{1}},
	} {
		e := newEngine(engineConfig{ord: 1})
		mem, reg := e.register(t, 64, enginetest.AllRights|region.ReadSink)
		var d enginetest.Done
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), Len: tt.size, Done: &d})
		e.output()
		to := 0
		for i, n := range tt.segs {
			u := enginetest.ReadResponse(t, reg.STag(), uint64(to))[:14]
			if i < len(tt.segs)-1 {
				u[0] &^= 0x40
			}
			e.input(enginetest.FPDU(append(u, bytes.Repeat([]byte{0xff}, n)...)))
			to += n
		}
		if pe, ok := e.err.(*verbs.ProtocolError); !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 1}) || d.N > 0 && d.Err == nil {
			t.Errorf("%s: %v, completed %d times with %v", tt.name, e.err, d.N, d.Err)
		}
		if n := bytes.Count(mem[tt.size:], []byte{0xff}); n > 0 {
			t.Errorf("%s: %d octets placed beyond the end", tt.name, n)
		}
	}
}

// TestReadResponseOfAnother answers the oldest of two Reads with the sink of the other one: that
// memory is valid and a response may write it, but not yet.
func TestReadResponseOfAnother(t *testing.T) {
	e := newEngine(engineConfig{ord: 2})
	var mem [2][]byte
	var sink [2]region.STag
	for i := range mem {
		m, reg := e.register(t, 16, region.ReadSink)
		mem[i], sink[i] = m, reg.STag()
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink[i], Len: 16})
	}
	e.output()
	e.input(enginetest.FPDU(enginetest.ReadResponse(t, sink[1], 0)))
	if pe, ok := e.err.(*verbs.ProtocolError); !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 0}) || e.read != 0 {
		t.Errorf("%v, %d Reads completed", e.err, e.read)
	}
	if !bytes.Equal(mem[1], make([]byte, 16)) {
		t.Error("the other Read's memory was written")
	}
}
