package engine_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// refusedWith gives e a ULPDU and checks the Terminate with which e answers.
func refusedWith(t *testing.T, e *halves, u []byte, word uint32) {
	t.Helper()
	e.output()
	e.input(rdmaptest.FPDU(u))
	if got, want := e.output(), rdmaptest.WantTerminate(word, u, word&0x2000 != 0); !bytes.Equal(got, want) {
		t.Errorf("%v\n got %x\nwant %x", e.err, got, want)
	}
}

// ownWord registers a word in e.
func ownWord(t *testing.T, e *halves, v uint64, a region.Access) (*uint64, region.STag) {
	t.Helper()
	mem, p := rdmaptest.Word(v)
	reg := must(e.snd.Table.Register(mem, a))(t)
	return p, reg.STag()
}

// TestReadings: where RFC 5040, RFC 7306 and the commit draft contradict each other or themselves, or say
// nothing, each row checks the one reading that the engine has chosen.
func TestReadings(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"the fifth opcode bit is one with the commit draft only", func(t *testing.T) {
			for _, x := range []struct {
				ext  verbs.Extensions
				word uint32
			}{{0, 0x1201<<16 | rdmaptest.WithHdr}, {verbs.Ext7306, 0x0206<<16 | rdmaptest.WithHdr}, {verbs.ExtCommit, 0x1202<<16 | rdmaptest.WithHdr}} {
				refusedWith(t, newEngine(engineConfig{ord: 1, ext: x.ext}), rdmaptest.Patch(t, rdmaptest.GoldAWResp, 10, 0, 0, 0, 1), x.word)
			}
		}},
		{"0x51 is never a Read Request", func(t *testing.T) {
			for _, ext := range []verbs.Extensions{0, verbs.Ext7306, verbs.ExtCommit} {
				e := newEngine(engineConfig{ird: 1, ext: ext})
				refusedWith(t, e, rdmaptest.Patch(t, rdmaptest.GoldReadReq, 1, 0x51), 0x0206<<16|rdmaptest.WithHdr)
			}
		}},
		{"opcodes of the draft do not exist without it", func(t *testing.T) {
			for op := verbs.OpFlushRequest; op <= verbs.OpAtomicWriteResponse; op++ {
				e := newEngine(engineConfig{ird: 1, ord: 1, ext: verbs.Ext7306 | verbs.ExtSwap})
				u := rdmaptest.Patch(t, rdmaptest.GoldReadReq, 1, 0x40|byte(op))
				u[9] = byte(op.Queue())
				refusedWith(t, e, u, 0x0206<<16|rdmaptest.WithHdr)
			}
		}},
		{"Immediate Data uses queue 0, Atomic Responses queue 3", func(t *testing.T) {
			refusedWith(t, newEngine(engineConfig{recvs: 1, ird: 1, ext: verbs.Ext7306}), rdmaptest.Patch(t, rdmaptest.GoldImmSE, 6, 0, 0, 0, 1, 0, 0, 0, 1), 0x0206<<16|rdmaptest.WithHdr)
			e := newEngine(engineConfig{ird: 1, ord: 1, ext: verbs.Ext7306})
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			refusedWith(t, e, rdmaptest.Patch(t, goldAtomicResp, 6, 0, 0, 0, 1, 0, 0, 0, 1), 0x0206<<16|rdmaptest.WithHdr)
		}},
		{"an Atomic Response has 12 octets, not 32", func(t *testing.T) {
			e := newEngine(engineConfig{ord: 1, ext: verbs.Ext7306})
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			u := append(rdmaptest.Patch(t, goldAtomicResp, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1), make([]byte, 20)...)
			refusedWith(t, e, u, 0x0207<<16|rdmaptest.WithHdr)
		}},
		{"the 28 bits beside the operation, and fields it has no use for, are ignored", func(t *testing.T) {
			e := newEngine(engineConfig{ird: 1, ext: verbs.Ext7306})
			p, stag := ownWord(t, e, 5, region.Atomic)
			u := retarget(t, goldFetchAdd, 8, stag, 1)
			copy(u[18:], []byte{0xff, 0xff, 0xff, 0xf0})
			binary.BigEndian.PutUint64(u[18+12:], 0)
			for i := 18 + 36; i < len(u); i++ {
				u[i] = 0xa5
			}
			e.input(rdmaptest.FPDU(u))
			e.output()
			if e.err != nil || *p != 10 {
				t.Errorf("%v, word %d", e.err, *p)
			}
		}},
		{"an Invalidate STag in a request of the draft is ignored", func(t *testing.T) {
			e := newEngine(engineConfig{ird: 1, ext: verbs.ExtCommit})
			_, reg := e.register(t, 64, rdmaptest.CommitRights|region.RemoteInvalidate)
			u := retarget(t, goldFlush, 0, reg.STag(), 1)
			binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
			binary.BigEndian.PutUint32(u[18+4:], 64)
			binary.BigEndian.PutUint64(u[18+8:], 0)
			u[18+19] = 0 // a fence: this memory is not persistent
			e.input(rdmaptest.FPDU(u))
			e.output()
			if e.err != nil || !reg.Valid() {
				t.Errorf("%v, valid %v", e.err, reg.Valid())
			}
		}},
		{"0x09 is understood as either type of error", func(t *testing.T) {
			for _, etype := range []uint8{1, 2} {
				if c := (verbs.TermCode{Layer: 0, EType: etype, Code: 9}); !c.Registered() {
					t.Errorf("%v", c)
				}
			}
		}},
		{"a response is complete when it is delivered, not when it is placed", func(t *testing.T) {
			e := newEngine(engineConfig{ord: 1, ext: verbs.Ext7306})
			var d rdmaptest.Done
			var ans verbs.Answer
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}, Answer: &ans, Done: &d})
			e.output()
			u := rdmaptest.Patch(t, goldAtomicResp, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
			first, last := append([]byte(nil), u[:18+8]...), append(append([]byte(nil), u[:18]...), u[18+8:]...)
			first[0], last[17] = 0x01, 8
			e.input(rdmaptest.FPDU(first))
			if d.N != 0 || ans.Old != 0 {
				t.Errorf("complete after a part: %+v, %+v", d, ans)
			}
			e.input(rdmaptest.FPDU(last))
			if e.err != nil || d.N != 1 || d.Err != nil || ans.Old != 2 {
				t.Errorf("%v, %+v, %+v", e.err, d, ans)
			}
		}},
		{"RDMAP has version 1 and no other", func(t *testing.T) {
			for _, rv := range []byte{0, 2, 3} {
				refusedWith(t, newEngine(engineConfig{recvs: 1}), rdmaptest.Patch(t, rdmaptest.GoldSend, 1, rv<<6|3), 0x0205<<16|rdmaptest.WithHdr)
			}
		}},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestMaskedCmpSwap compares with an oracle that works bit by bit.
func TestMaskedCmpSwap(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	e := newEngine(engineConfig{})
	p, stag := ownWord(t, e, 0, region.Atomic)
	some := func() uint64 {
		return []uint64{0, ones, 1, 1 << 63, rnd.Uint64(), rnd.Uint64() & rnd.Uint64()}[rnd.IntN(6)]
	}
	for range 20000 {
		old, swap, swapMask, cmp, cmpMask := some(), some(), some(), some(), some()
		if rnd.IntN(2) == 0 {
			cmp = old ^ some()&^cmpMask // equal where it counts
		}
		equal, want := true, old
		for bit := uint64(1); bit != 0; bit <<= 1 {
			equal = equal && (cmpMask&bit == 0 || cmp&bit == old&bit)
		}
		for bit := uint64(1); bit != 0 && equal; bit <<= 1 {
			if swapMask&bit != 0 {
				want = want&^bit | swap&bit
			}
		}
		*p = old
		view := must(e.snd.Table.Lookup(stag, 0, 8, region.Atomic))(t)
		got, err := view.CmpSwap(cmp, cmpMask, swap, swapMask)
		view.Release()
		if err != nil || got != old || *p != want {
			t.Fatalf("%x: swap %x/%x, compare %x/%x: returned %x, left %x, want %x, %v", old, swap, swapMask, cmp, cmpMask, got, *p, want, err)
		}
	}
}

// TestSlotsBesideReads: a connection with RFC 7306 accepts IRD Reads, atomics in addition, and not one more
// request (RFC 7306 Section 5.2), all in one read of the socket.
func TestSlotsBesideReads(t *testing.T) {
	for _, more := range []int{0, 1} {
		e, _, p := onConn(t, engineConfig{ird: 2, ext: verbs.Ext7306})
		w, stag := ownWord(t, e, 0, region.Atomic|region.RemoteRead)
		var in []byte
		n := 2 + 16 + more
		for i := range n {
			u := rdmaptest.ReadRequest(t, stag, 0, 8)
			if i >= 2 {
				u = retarget(t, goldFetchAdd, 8, stag, 0)
				binary.BigEndian.PutUint64(u[18+12:], 0)
			}
			u[13] = byte(i + 1)
			in = append(in, rdmaptest.FPDU(u)...)
		}
		if _, err := p.Conn.Write(in); err != nil {
			t.Fatal(err)
		}
		var last []byte
		for range n {
			u := must(p.Next())(t)
			if last = u; u[1] == 0x47 {
				break
			}
		}
		if more == 0 && (last[1] != 0x4b || *w != 5*16) {
			t.Errorf("last %x, word %d", last, *w)
		}
		if more > 0 && (last[1] != 0x47 || hex.EncodeToString(last[18:20]) != "1202") {
			t.Errorf("last %x", last)
		}
		p.Conn.Close()
	}
}
