package rdmap

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// The FPDUs of test-vectors.md Section 4. STags 11223344 and aabbccdd cannot be
// registered on purpose (they are drawn at random), so what a region table has to
// know is tested with the STag replaced and the CRC recomputed: see withSTag.
const (
	goldWrite    = "001ec140112233440000000100000000000102030405060708090a0b0c0d0e0f02febf03"
	goldReadReq  = "002e414100000000000000010000000100000000aabbccdd000000000000200000001000112233440000000000001000" + "9ddf71c2"
	goldReadResp = "001ec142aabbccdd0000000000002000000102030405060708090a0b0c0d0e0fa44706e3"
	goldSend     = "001741430000000000000000000000010000000048454c4c4f000000ccc19375"
	goldSendZero = "0012414300000000000000000000000200000000accbdb8c"
	goldSendInv  = "001741441122334400000000000000030000000048454c4c4f000000abfbdb6f"
	goldSendSE   = "001741450000000000000000000000040000000048454c4c4f00000073a1b362"
	goldSendSEI  = "001741461122334400000000000000050000000048454c4c4f000000cffd5e91"
	goldTermSTag = "00264147000000000000000200000001000000001100c000001ec140112233440000000100000000769806af"
	goldTermRead = "00464147000000000000000200000001000000000101e000002e414100000000000000010000000100000000aabbccdd" +
		"000000000000200000001000112233440000000000001000e2f4d4e2"
	goldTermBuf   = "002a4147000000000000000200000001000000001202c00007e24143000000000000000000000009000000004ff55aec"
	goldTermOp    = "002a4147000000000000000200000001000000000206c000001a414c0000000000000001000000040000000047a662f4"
	goldTermLocal = "001641470000000000000002000000010000000000000000f9a26f1d"
	goldTermCRC   = "0016414700000000000000020000000100000000200200007fe42585"
	goldTermRTR   = "0016414700000000000000020000000100000000200700001bd2babe"
	goldImm       = "001a41480000000000000000000000060000000001020304050607083d6b1697"
	goldImmSE     = "001a4149000000000000000000000007000000000102030405060708c598f089"
	goldAWResp    = "0012415100000000000000030000000700000000e2c6f91e"
	goldStalePad  = "001741430000000000000000000000010000000048454c4c4f010203a890c7e4"
)

// fpduOf recomputes length, pad and CRC around a ULPDU.
func fpduOf(ulpdu []byte) []byte { return mpa.AppendFPDU(nil, ulpdu, true) }

// ulpduOf returns the ULPDU of one FPDU.
func ulpduOf(t testing.TB, fpdu []byte) []byte {
	t.Helper()
	d := mpa.Deframer{CRC: true}
	u, n, err := d.Next(bytes.Clone(fpdu))
	if err != nil || n != len(fpdu) {
		t.Fatalf("bad vector: %d of %d octets, %v", n, len(fpdu), err)
	}
	return bytes.Clone(u)
}

func TestGoldenProduced(t *testing.T) {
	hello := []byte("HELLO")
	sixteen := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	const stag = 0x11223344
	e := newEngine(engineConfig{ord: 1})
	for _, step := range []struct {
		want string
		wr   verbs.WR
	}{
		{goldWrite, verbs.WR{Op: verbs.OpWrite, Body: sixteen, STag: stag, TO: 0x100000000}},
		{goldReadReq, verbs.WR{Op: verbs.OpReadRequest, Sink: 0xaabbccdd, SinkTO: 0x2000, Len: 4096, STag: stag, TO: 0x1000}},
		{goldSend, verbs.WR{Op: verbs.OpSend, Head: hello}},
		{goldSendZero, verbs.WR{Op: verbs.OpSend}},
		{goldSendInv, verbs.WR{Op: verbs.OpSendInvalidate, Head: hello[:2], Body: hello[2:], STag: stag}},
		{goldSendSE, verbs.WR{Op: verbs.OpSendSE, Body: hello}},
		{goldSendSEI, verbs.WR{Op: verbs.OpSendSEInvalidate, Body: hello, STag: stag}},
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
	u := ulpduOf(t, unhex(t, goldReadReq))
	binary.BigEndian.PutUint32(u[18+12:], 16)
	binary.BigEndian.PutUint32(u[18+16:], uint32(reg.STag()))
	e.input(fpduOf(u))
	if got := hex.EncodeToString(e.output()); got != goldReadResp {
		t.Fatalf("got %s\nwant %s", got, goldReadResp)
	}
}

func TestGoldenConsumed(t *testing.T) {
	e := newEngine(engineConfig{recvs: 5})
	_, reg := e.register(t, 1, region.RemoteInvalidate)
	_, reg2 := e.register(t, 1, region.RemoteInvalidate)
	invalidate := func(s string, stag region.STag) []byte {
		u := ulpduOf(t, unhex(t, s))
		binary.BigEndian.PutUint32(u[2:], uint32(stag))
		return fpduOf(u)
	}
	e.input(unhex(t, goldStalePad))
	e.input(unhex(t, goldSendZero))
	e.input(invalidate(goldSendInv, reg.STag()))
	e.input(unhex(t, goldSendSE))
	e.input(invalidate(goldSendSEI, reg2.STag()))
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
	u := ulpduOf(t, unhex(t, goldWrite))
	binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
	e.input(fpduOf(u))
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
	var d done
	e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), SinkTO: 0x2000, Len: 16, Done: &d})
	e.output()
	u := ulpduOf(t, unhex(t, goldReadResp))
	binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
	e.input(fpduOf(u))
	if e.err != nil || d.n != 1 || d.err != nil || mem[15] != 15 {
		t.Fatalf("%v, done %+v, memory %x", e.err, d, mem)
	}
}

// TestGoldenTerminates produces and parses the Terminates of vectors 4.9 to 4.15.
func TestGoldenTerminates(t *testing.T) {
	hdr := func(s string) []byte { return ulpduOf(t, unhex(t, s)) }
	for _, tt := range []struct {
		want string
		term verbs.Terminate
	}{
		{goldTermSTag, verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30, DDP: hdr(goldWrite)[:14]}},
		{goldTermRead, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 1, Code: 1}, HasLength: true, SegLen: 46,
			DDP: hdr(goldReadReq)[:18], Read: hdr(goldReadReq)[18:],
		}},
		{goldTermBuf, verbs.Terminate{
			Code: verbs.TermCode{Layer: 1, EType: 2, Code: 2}, HasLength: true, SegLen: 2018,
			DDP: unhex(t, "414300000000000000000000000900000000"),
		}},
		{goldTermOp, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 2, Code: 6}, HasLength: true, SegLen: 26,
			DDP: unhex(t, "414c00000000000000010000000400000000"),
		}},
		{goldTermLocal, verbs.Terminate{}},
		{goldTermCRC, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 2}}},
		{goldTermRTR, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 7}}},
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
		p.input(unhex(t, tt.want))
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
