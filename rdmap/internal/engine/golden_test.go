package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Vectors 4.22 to 4.27; 4.28 is goldAWResp.
const (
	goldFlush       = "0026414c000000000000000100000005000000001122334400010000000000000000100000000003e94e8c34"
	goldFlushResp   = "0012414d0000000000000003000000040000000044165b34"
	goldVerify      = "0022414e0000000000000001000000060000000011223344000000200000000000001000df3a3500"
	goldVerifyHash  = "0026414e00000000000000010000000700000000112233440000002000000000000010008a9136aad5b75c44"
	goldVerifyResp  = "0016414f000000000000000300000005000000008a9136aa07784e3e"
	goldAtomicWrite = "002a41500000000000000001000000080000000011223344000000080000000000001010010203040506070894291bce"
)

// TestGoldenProduced: what the engine sends is the vectors, octet by octet. That it takes what it sends, and makes of it what
// was meant, is said by TestModel.
func TestGoldenProduced(t *testing.T) {
	hello, eight := []byte("HELLO"), []byte{1, 2, 3, 4, 5, 6, 7, 8}
	sixteen := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	const stag = 0x11223344
	both := verbs.FlushPersistent | verbs.FlushVisible
	e := newEngine(engineConfig{ord: 99, ext: engine.ExtAll})
	e.snd.SetLastID(0x100)
	for _, step := range []struct {
		want string
		wr   verbs.WR
	}{
		{rdmaptest.Gold.Write, verbs.WR{Op: verbs.OpWrite, Body: sixteen, STag: stag, TO: 0x100000000}},
		{rdmaptest.Gold.ReadReq, verbs.WR{Op: verbs.OpReadRequest, Sink: 0xaabbccdd, SinkTO: 0x2000, Len: 4096, STag: stag, TO: 0x1000}},
		{rdmaptest.Gold.Send, verbs.WR{Op: verbs.OpSend, Head: hello}},
		{rdmaptest.Gold.SendZero, verbs.WR{Op: verbs.OpSend}},
		{rdmaptest.Gold.SendInv, verbs.WR{Op: verbs.OpSendInvalidate, Head: hello[:2], Body: hello[2:], STag: stag}},
		{rdmaptest.Gold.SendSE, verbs.WR{Op: verbs.OpSendSE, Body: hello}},
		{rdmaptest.Gold.SendSEI, verbs.WR{Op: verbs.OpSendSEInvalidate, Body: hello, STag: stag}},
		{rdmaptest.Gold.Imm, verbs.WR{Op: verbs.OpImmediate, Body: eight}},
		{rdmaptest.Gold.ImmSE, verbs.WR{Op: verbs.OpImmediateSE, Body: eight}},
		{goldFetchAdd, verbs.WR{Op: verbs.OpAtomicRequest, STag: stag, TO: 0x1008, Atomic: &verbs.Atomic{Op: verbs.AtomicFetchAdd, Operand: 5}}},
		{goldCmpSwap, verbs.WR{Op: verbs.OpAtomicRequest, STag: stag, TO: 0x1008, Atomic: &verbs.Atomic{
			Op: verbs.AtomicCmpSwap, Operand: 0xdeadbeefcafef00d, Mask: ones, Compare: 7, CompareMask: ones,
		}}},
		{goldSwap, verbs.WR{Op: verbs.OpAtomicRequest, STag: stag, TO: 0x1008, Atomic: &verbs.Atomic{Op: verbs.AtomicSwap, Operand: 0x1111222233334444}}},
		{goldFlush, verbs.WR{Op: verbs.OpFlushRequest, STag: stag, TO: 0x1000, Len: 65536, Flags: both}},
		{goldVerify, verbs.WR{Op: verbs.OpVerifyRequest, STag: stag, TO: 0x1000, Len: 32}},
		{goldVerifyHash, verbs.WR{Op: verbs.OpVerifyRequest, STag: stag, TO: 0x1000, Len: 32, Body: []byte{0x8a, 0x91, 0x36, 0xaa}}},
		{goldAtomicWrite, verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: stag, TO: 0x1010, Body: eight}},
	} {
		e.post(step.wr)
		if got := hex.EncodeToString(e.output()); got != step.want {
			t.Errorf("%v:\n got %s\nwant %s", step.wr.Op, got, step.want)
		}
	}
}

// TestGoldenResponses: to the requests of the vectors, of memory that holds what they expect, the engine answers with theirs.
func TestGoldenResponses(t *testing.T) {
	e := newEngine(engineConfig{ird: 9, ext: engine.ExtAll})
	mem := &rdmaptest.Persisting{Mem: make([]byte, 65536)}
	reg := must(e.snd.Table.RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights | region.Atomic, Base: 0x1000}))(t)
	sum := "0016414f000000000000000300000006000000008a9136aa" // of 32 zeros; the CRC depends on the MSN
	for i, g := range []struct {
		req  string
		at   int // of the STag in the payload
		msn3 uint32
		resp string
		word uint64 // that the request finds and leaves at 0x1008, if it is an atomic
		left uint64
	}{
		{goldFetchAdd, 8, 0, goldAtomicResp, 2, 7},
		{goldCmpSwap, 8, 0, "", 7, 0xdeadbeefcafef00d},
		{goldSwap, 8, 0, "", 8, 0x1111222233334444},
		{goldFlush, 0, 3, goldFlushResp, 0, 0},
		{goldVerify, 0, 4, goldVerifyResp, 0, 0},
		{goldVerifyHash, 0, 5, sum, 0, 0},
		{goldAtomicWrite, 0, 6, rdmaptest.Gold.AWResp, 0, 0},
	} {
		e.wk.MSN()[3] = g.msn3
		binary.NativeEndian.PutUint64(mem.Mem[8:], g.word)
		e.input(rdmaptest.FPDU(retarget(t, g.req, g.at, reg.STag(), byte(i+1))))
		if got := hex.EncodeToString(e.output()); !strings.HasPrefix(got, g.resp) {
			t.Errorf("got %s, want %s", got, g.resp)
		}
		if got := binary.NativeEndian.Uint64(mem.Mem[8:]); got != g.left {
			t.Errorf("request %d left %#x, want %#x", i, got, g.left)
		}
	}
	if e.err != nil || mem.Calls != 1 || !bytes.Equal(mem.Mem[0x10:0x18], []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Fatal(e.err, mem.Calls)
	}
	// That of vector 4.2 comes back as 4.3.
	e = newEngine(engineConfig{ird: 1})
	src, from := e.register(t, 0x1010, region.RemoteRead)
	for i := range 16 {
		src[0x1000+i] = byte(i)
	}
	e.input(rdmaptest.FPDU(rdmaptest.ReadRequest(t, from.STag(), 0x1000, 16)))
	if got := hex.EncodeToString(e.output()); got != rdmaptest.Gold.ReadResp {
		t.Fatalf("got %s\nwant %s", got, rdmaptest.Gold.ReadResp)
	}
}

// TestGoldenTerminates produces and parses the Terminates of vectors 4.9 to 4.15.
func TestGoldenTerminates(t *testing.T) {
	hdr := func(s string) []byte { return rdmaptest.ULPDU(t, rdmaptest.Unhex(t, s)) }
	for _, tt := range []struct {
		want string
		term verbs.Terminate
	}{
		{rdmaptest.Gold.TermSTag, verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30, DDP: hdr(rdmaptest.Gold.Write)[:14]}},
		{rdmaptest.Gold.TermRead, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 1, Code: 1}, HasLength: true, SegLen: 46,
			DDP: hdr(rdmaptest.Gold.ReadReq)[:18], Read: hdr(rdmaptest.Gold.ReadReq)[18:],
		}},
		{rdmaptest.Gold.TermBuf, verbs.Terminate{
			Code: verbs.TermCode{Layer: 1, EType: 2, Code: 2}, HasLength: true, SegLen: 2018,
			DDP: rdmaptest.Unhex(t, "414300000000000000000000000900000000"),
		}},
		{rdmaptest.Gold.TermOp, verbs.Terminate{
			Code: verbs.TermCode{Layer: 0, EType: 2, Code: 6}, HasLength: true, SegLen: 26,
			DDP: rdmaptest.Unhex(t, "414c00000000000000010000000400000000"),
		}},
		{rdmaptest.Gold.TermLocal, verbs.Terminate{}},
		{rdmaptest.Gold.TermCRC, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 2}}},
		{rdmaptest.Gold.TermRTR, verbs.Terminate{Code: verbs.TermCode{Layer: 2, EType: 0, Code: 7}}},
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
