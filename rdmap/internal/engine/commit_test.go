package engine_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

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

func TestGoldenCommit(t *testing.T) {
	a := newEngine(engineConfig{ord: 9, ext: verbs.ExtCommit})
	a.wk.MSN()[1] = 4
	for _, g := range []struct {
		gold string
		wr   verbs.WR
	}{
		{goldFlush, verbs.WR{Op: verbs.OpFlushRequest, TO: 0x1000, Len: 65536, Flags: verbs.FlushPersistent | verbs.FlushVisible}},
		{goldVerify, verbs.WR{Op: verbs.OpVerifyRequest, TO: 0x1000, Len: 32}},
		{goldVerifyHash, verbs.WR{Op: verbs.OpVerifyRequest, TO: 0x1000, Len: 32, Body: []byte{0x8a, 0x91, 0x36, 0xaa}}},
		{goldAtomicWrite, verbs.WR{Op: verbs.OpAtomicWriteRequest, TO: 0x1010, Body: []byte{1, 2, 3, 4, 5, 6, 7, 8}}},
	} {
		g.wr.STag = 0x11223344
		a.post(g.wr)
		if got := hex.EncodeToString(a.output()); got != g.gold {
			t.Errorf("%v:\n got %s\nwant %s", g.wr.Op, got, g.gold)
		}
	}
	e := newEngine(engineConfig{ird: 9, ext: verbs.ExtCommit})
	mem := &rdmaptest.Persisting{Mem: make([]byte, 65536)}
	reg, _ := e.snd.Table.RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights, Base: 0x1000})
	e.wk.MSN()[3] = 3
	for i, g := range []struct{ req, resp string }{
		{goldFlush, goldFlushResp},
		{goldVerify, goldVerifyResp},
		{goldVerifyHash, "0016414f000000000000000300000006000000008a9136aa"},
		{goldAtomicWrite, rdmaptest.GoldAWResp},
	} {
		e.input(rdmaptest.FPDU(retarget(t, g.req, 0, reg.STag(), byte(i+1))))
		if got := hex.EncodeToString(e.output()); !bytes.HasPrefix([]byte(got), []byte(g.resp)) {
			t.Errorf("got %s, want %s", got, g.resp)
		}
	}
	if e.err != nil || mem.Calls != 1 || mem.Mem[0x10] != 1 || mem.Mem[0x17] != 8 {
		t.Fatal(e.err, mem.Calls)
	}
}

// TestCommitRefusals: rights, lengths and mismatches; the verify oracle (ADVERSARY
// 26). After a failure nothing later is executed: the last request is an Atomic Write.
//
// spec: rdmap 7.5 Flush
func TestCommitRefusals(t *testing.T) {
	all := rdmaptest.CommitRights
	for _, tt := range []struct {
		name   string
		wr     verbs.WR
		access region.Access
		code   verbs.TermCode // zero: none
	}{
		{"flush P", verbs.WR{Op: verbs.OpFlushRequest, Len: 8, Flags: verbs.FlushPersistent}, all, verbs.TermCode{}},
		{"flush P, no right", verbs.WR{Op: verbs.OpFlushRequest, Len: 8, Flags: verbs.FlushPersistent}, all &^ region.FlushPersistent, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"flush G, no right", verbs.WR{Op: verbs.OpFlushRequest, Len: 8, Flags: 3}, all &^ region.FlushVisible, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"flush without flags", verbs.WR{Op: verbs.OpFlushRequest, Len: 8}, all, verbs.TermCode{}},
		{"flush with unknown flags", verbs.WR{Op: verbs.OpFlushRequest, Len: 8, Flags: 0xfe}, all, verbs.TermCode{}},
		{"flush of nothing", verbs.WR{Op: verbs.OpFlushRequest, Flags: 3}, all, verbs.TermCode{}},
		{"flush of nothing at the end", verbs.WR{Op: verbs.OpFlushRequest, TO: 128, Flags: 3}, all, verbs.TermCode{}},
		{"flush of nothing anywhere", verbs.WR{Op: verbs.OpFlushRequest, STag: 1, Flags: 3}, all, verbs.TermCode{Layer: 0, EType: 1, Code: 0}},
		{"flush of nothing beyond the end", verbs.WR{Op: verbs.OpFlushRequest, TO: 129, Flags: 1}, all, verbs.TermCode{Layer: 0, EType: 1, Code: 1}},
		{"flush of nothing, no right", verbs.WR{Op: verbs.OpFlushRequest, Flags: 1}, all &^ region.FlushPersistent, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"flush out of bounds", verbs.WR{Op: verbs.OpFlushRequest, Len: 129, Flags: 1}, all, verbs.TermCode{Layer: 0, EType: 1, Code: 1}},
		{"verify", verbs.WR{Op: verbs.OpVerifyRequest, Len: 8}, all, verbs.TermCode{}},
		{"verify, no right", verbs.WR{Op: verbs.OpVerifyRequest, Len: 8}, all &^ region.Verify, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"verify returns, no read", verbs.WR{Op: verbs.OpVerifyRequest, Len: 128}, all &^ region.RemoteRead, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"compare 63, no read", verbs.WR{Op: verbs.OpVerifyRequest, Len: 63, Body: make([]byte, 4)}, all &^ region.RemoteRead, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
		{"compare 64, no read", verbs.WR{Op: verbs.OpVerifyRequest, Len: 64, Body: rdmaptest.Castagnoli(make([]byte, 64))}, all &^ region.RemoteRead, verbs.TermCode{}},
		{"mismatch", verbs.WR{Op: verbs.OpVerifyRequest, Len: 64, Body: make([]byte, 4)}, all, verbs.TermCode{Layer: 0, EType: 2, Code: 7}},
		{"hash of 5", verbs.WR{Op: verbs.OpVerifyRequest, Len: 64, Body: make([]byte, 5)}, all, verbs.TermCode{Layer: 0, EType: 2, Code: 7}},
		{"misaligned", verbs.WR{Op: verbs.OpAtomicWriteRequest, TO: 4, Body: make([]byte, 8)}, all, verbs.TermCode{Layer: 0, EType: 2, Code: 7}},
		{"atomic write, no right", verbs.WR{Op: verbs.OpAtomicWriteRequest, Body: make([]byte, 8)}, all &^ region.RemoteWrite, verbs.TermCode{Layer: 0, EType: 1, Code: 2}},
	} {
		a, b := newEngine(engineConfig{ord: 9, ext: verbs.ExtCommit}), newEngine(engineConfig{ird: 9, ext: verbs.ExtCommit})
		mem := &rdmaptest.Persisting{Mem: make([]byte, 128)}
		reg, _ := b.snd.Table.RegisterMemory(mem, region.Options{Access: tt.access})
		after, reg2 := b.register(t, 8, region.RemoteWrite)
		if tt.wr.STag == 0 {
			tt.wr.STag = reg.STag()
		}
		var d rdmaptest.Done
		tt.wr.Done = &d
		a.post(tt.wr, verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: reg2.STag(), Body: bytes.Repeat([]byte{1}, 8)})
		exchange(a, b)
		pe, _ := errors.AsType[*verbs.ProtocolError](b.err)
		if failed := tt.code != (verbs.TermCode{}); failed != (b.err != nil) || failed && pe.Code != tt.code ||
			failed != (after[0] == 0) || failed != (d.Err != nil) || d.N != 1 || !reg.Valid() {
			t.Errorf("%s: %v; later request executed: %v; %+v", tt.name, b.err, after[0] == 1, d)
		}
	}
}
