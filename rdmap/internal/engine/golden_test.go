package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

func TestGoldenProduced(t *testing.T) {
	hello := []byte("HELLO")
	sixteen := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	const stag = 0x11223344
	e := newEngine(engineConfig{ord: 1})
	for _, step := range []struct {
		want string
		wr   verbs.WR
	}{
		{rdmaptest.GoldWrite, verbs.WR{Op: verbs.OpWrite, Body: sixteen, STag: stag, TO: 0x100000000}},
		{rdmaptest.GoldReadReq, verbs.WR{Op: verbs.OpReadRequest, Sink: 0xaabbccdd, SinkTO: 0x2000, Len: 4096, STag: stag, TO: 0x1000}},
		{rdmaptest.GoldSend, verbs.WR{Op: verbs.OpSend, Head: hello}},
		{rdmaptest.GoldSendZero, verbs.WR{Op: verbs.OpSend}},
		{rdmaptest.GoldSendInv, verbs.WR{Op: verbs.OpSendInvalidate, Head: hello[:2], Body: hello[2:], STag: stag}},
		{rdmaptest.GoldSendSE, verbs.WR{Op: verbs.OpSendSE, Body: hello}},
		{rdmaptest.GoldSendSEI, verbs.WR{Op: verbs.OpSendSEInvalidate, Body: hello, STag: stag}},
	} {
		e.post(step.wr)
		if got := hex.EncodeToString(e.output()); got != step.want {
			t.Errorf("%v:\n got %s\nwant %s", step.wr.Op, got, step.want)
		}
	}
}

// TestGoldenResponse lets the engine answer the Read Request of vector 4.2 with the
// octets of 4.3.
func TestGoldenResponse(t *testing.T) {
	e := newEngine(engineConfig{ird: 1})
	mem, reg := e.register(t, 0x1010, region.RemoteRead)
	for i := range 16 {
		mem[0x1000+i] = byte(i)
	}
	u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.GoldReadReq))
	binary.BigEndian.PutUint32(u[18+12:], 16)
	binary.BigEndian.PutUint32(u[18+16:], uint32(reg.STag()))
	e.input(rdmaptest.FPDU(u))
	if got := hex.EncodeToString(e.output()); got != rdmaptest.GoldReadResp {
		t.Fatalf("got %s\nwant %s", got, rdmaptest.GoldReadResp)
	}
}

func TestGoldenConsumed(t *testing.T) {
	e := newEngine(engineConfig{recvs: 5})
	_, reg := e.register(t, 1, region.RemoteInvalidate)
	_, reg2 := e.register(t, 1, region.RemoteInvalidate)
	invalidate := func(s string, stag region.STag) []byte {
		u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, s))
		binary.BigEndian.PutUint32(u[2:], uint32(stag))
		return rdmaptest.FPDU(u)
	}
	e.input(rdmaptest.Unhex(t, rdmaptest.GoldStalePad))
	e.input(rdmaptest.Unhex(t, rdmaptest.GoldSendZero))
	e.input(invalidate(rdmaptest.GoldSendInv, reg.STag()))
	e.input(rdmaptest.Unhex(t, rdmaptest.GoldSendSE))
	e.input(invalidate(rdmaptest.GoldSendSEI, reg2.STag()))
	if e.err != nil {
		t.Fatal(e.err)
	}
	want := []verbs.Message{
		{Op: verbs.OpSend, Data: []byte("HELLO")},
		{Op: verbs.OpSend, Data: []byte{}},
		{Op: verbs.OpSendInvalidate, Data: []byte("HELLO"), Invalidated: reg.STag()},
		{Op: verbs.OpSendSE, Data: []byte("HELLO"), Solicited: true},
		{Op: verbs.OpSendSEInvalidate, Data: []byte("HELLO"), Invalidated: reg2.STag(), Solicited: true},
	}
	if len(e.got) != len(want) {
		t.Fatalf("%d messages", len(e.got))
	}
	for i, m := range e.got {
		w := want[i]
		if m.Op != w.Op || !bytes.Equal(m.Data, w.Data) || m.Invalidated != w.Invalidated || m.Solicited != w.Solicited {
			t.Errorf("message %d: got %+v, want %+v", i, m, w)
		}
	}
	if reg.Valid() || reg2.Valid() {
		t.Error("an STag survived its invalidation")
	}
}

func TestGoldenWriteConsumed(t *testing.T) {
	e := newEngine(engineConfig{})
	mem := make([]byte, 16)
	reg, err := e.snd.Table.RegisterMemory(region.Bytes(mem), region.Options{Access: region.RemoteWrite, Base: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.GoldWrite))
	binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
	e.input(rdmaptest.FPDU(u))
	if e.err != nil || mem[15] != 15 {
		t.Fatalf("%v, memory %x", e.err, mem)
	}
}

func TestGoldenReadConsumed(t *testing.T) {
	e := newEngine(engineConfig{ord: 1})
	mem := make([]byte, 16)
	reg, err := e.snd.Table.RegisterMemory(region.Bytes(mem), region.Options{Access: region.ReadSink, Base: 0x2000})
	if err != nil {
		t.Fatal(err)
	}
	var d rdmaptest.Done
	e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), SinkTO: 0x2000, Len: 16, Done: &d})
	e.output()
	u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.GoldReadResp))
	binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
	e.input(rdmaptest.FPDU(u))
	if e.err != nil || d.N != 1 || d.Err != nil || mem[15] != 15 {
		t.Fatalf("%v, done %+v, memory %x", e.err, d, mem)
	}
}

// TestGoldenTerminates produces and parses the Terminates of vectors 4.9 to 4.15.
func TestGoldenTerminates(t *testing.T) {
	hdr := func(s string) []byte { return rdmaptest.ULPDU(t, rdmaptest.Unhex(t, s)) }
	for _, tt := range []struct {
		want string
		term verbs.Terminate
	}{
		{rdmaptest.GoldTermSTag, verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30, DDP: hdr(rdmaptest.GoldWrite)[:14]}},
		{rdmaptest.GoldTermRead, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 1, Code: 1}, HasLength: true, SegLen: 46,
			DDP: hdr(rdmaptest.GoldReadReq)[:18], Read: hdr(rdmaptest.GoldReadReq)[18:],
		}},
		{rdmaptest.GoldTermBuf, verbs.Terminate{
			Code: verbs.TermCode{Layer: 1, EType: 2, Code: 2}, HasLength: true, SegLen: 2018,
			DDP: rdmaptest.Unhex(t, "414300000000000000000000000900000000"),
		}},
		{rdmaptest.GoldTermOp, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 2, Code: 6}, HasLength: true, SegLen: 26,
			DDP: rdmaptest.Unhex(t, "414c00000000000000010000000400000000"),
		}},
		{rdmaptest.GoldTermLocal, verbs.Terminate{}},
		{rdmaptest.GoldTermCRC, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 2}}},
		{rdmaptest.GoldTermRTR, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 7}}},
	} {
		e := newEngine(engineConfig{})
		payload := tt.term.Append(nil)
		if len(payload) != tt.term.Size() {
			t.Errorf("%v: size %d, appended %d", tt.term.Code, tt.term.Size(), len(payload))
		}
		e.fail(&verbs.ProtocolError{Terminate: &tt.term})
		if got := hex.EncodeToString(e.output()); got != tt.want {
			t.Errorf("%v:\n got %s\nwant %s", tt.term.Code, got, tt.want)
		}
		e.post(verbs.WR{Op: verbs.OpSend})
		if out := e.output(); len(out) > 0 {
			t.Errorf("%x sent after a Terminate", out)
		}

		p := newEngine(engineConfig{})
		p.input(rdmaptest.Unhex(t, tt.want))
		te, ok := errors.AsType[*verbs.TerminateError](p.err)
		if !ok {
			t.Fatalf("%v: received as %v", tt.term.Code, p.err)
		}
		got := te.Terminate
		if got.Code != tt.term.Code || got.HasLength != tt.term.HasLength || got.SegLen != tt.term.SegLen ||
			!bytes.Equal(got.DDP, tt.term.DDP) || !bytes.Equal(got.Read, tt.term.Read) {
			t.Errorf("parsed %+v, want %+v", got, tt.term)
		}
		if out := p.output(); len(out) > 0 {
			t.Errorf("a Terminate was answered with %x", out)
		}
	}
}
