package engine_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// goldAll are the seeds of the fuzz targets.
var goldAll = []string{
	rdmaptest.Gold.Write, rdmaptest.Gold.ReadReq, rdmaptest.Gold.ReadResp, rdmaptest.Gold.Send, rdmaptest.Gold.SendZero, rdmaptest.Gold.SendInv, rdmaptest.Gold.SendSE, rdmaptest.Gold.SendSEI,
	rdmaptest.Gold.TermSTag, rdmaptest.Gold.TermRead, rdmaptest.Gold.TermBuf, rdmaptest.Gold.TermOp, rdmaptest.Gold.TermLocal, rdmaptest.Gold.TermCRC, rdmaptest.Gold.TermRTR,
	rdmaptest.Gold.Imm, rdmaptest.Gold.ImmSE, rdmaptest.Gold.AWResp, rdmaptest.Gold.StalePad, goldFetchAdd, goldCmpSwap, goldSwap, goldAtomicResp,
	goldFlush, goldVerify, goldVerifyHash, goldAtomicWrite,
}

// FuzzEngine feeds arbitrary octets to the engine, without CRC so that they get far. Whatever they are,
// there is no panic, the memory around the region is not touched, the answer is a sequence of whole
// FPDUs that ends with a Terminate if there was an error, all memory is back in the pool, and cutting
// the octets elsewhere changes nothing.
func FuzzEngine(f *testing.F) {
	for _, g := range goldAll {
		b, _ := hex.DecodeString(g)
		f.Add(b, uint16(7))
	}
	f.Add(conversation(false, 0), uint16(100))
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		whole := fuzzRun(t, in, len(in))
		pieces := fuzzRun(t, in, 1+int(cut))
		if whole != pieces && !echoesSTag(t, in, whole) {
			t.Fatalf("in one piece:\n%s\nin pieces of %d:\n%s", whole, 1+int(cut), pieces)
		}
	})
}

// echoesSTag reports whether the result of in depends on the STags, which differ from run to run: a
// message may contain the words that stand for them, or a part of one.
func echoesSTag(t *testing.T, in []byte, was string) bool {
	for range 8 { // a piece of one octet may be the same by chance
		if fuzzRun(t, in, len(in)) != was {
			return true
		}
	}
	return false
}

func fuzzRun(t *testing.T, in []byte, piece int) string {
	pool := buf.NewPool(1 << 20)
	e := newEngine(engineConfig{recvs: 3, ird: 2, ord: 1, nocrc: true, size: 100, pool: pool, ext: engine.ExtAll})
	around := make([]byte, 300)
	reg, err := e.snd.Table.Register(around[100:200:200], rdmaptest.AllRights|region.Atomic|region.Verify|region.FlushVisible)
	noErr(t, err)
	sink := make([]byte, 32)
	sreg, _ := e.snd.Table.Register(sink, region.ReadSink)
	var d rdmaptest.Done
	e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sreg.STag(), Len: 32, Done: &d})
	e.output()
	// The fuzzer cannot guess STags: two words stand for them.
	in = bytes.ReplaceAll(bytes.Clone(in), []byte{0x11, 0x22, 0x33, 0x44}, stagOctets(reg.STag()))
	in = bytes.ReplaceAll(in, []byte{0xaa, 0xbb, 0xcc, 0xdd}, stagOctets(sreg.STag()))
	var out []byte
	for len(in) > 0 {
		n := min(piece, len(in))
		e.input(in[:n])
		in = in[n:]
	}
	out = e.output()
	for _, b := range append(bytes.Clone(around[:100]), around[200:]...) {
		if b != 0 {
			t.Fatal("wrote outside the region")
		}
	}
	segs := segmentsNoCRC(t, out)
	if e.err != nil {
		_, told := e.err.(*verbs.TerminateError)
		if pe, ok := e.err.(*verbs.ProtocolError); ok && pe.Terminate == nil {
			told = true // a Terminate of the peer that is wrong itself
		}
		if !told && (len(segs) == 0 || segs[len(segs)-1] != verbs.OpTerminate) {
			t.Fatalf("error %v and no Terminate", e.err)
		}
		if d.N != 1 {
			t.Fatalf("the Read completed %d times", d.N)
		}
	}
	e.rcv.Close()
	if pool.Load().Octets != 0 {
		t.Fatalf("%d octets of the pool in use", pool.Load().Octets)
	}
	if len(e.got) > 3 {
		t.Fatalf("%d messages into 3 receives", len(e.got))
	}
	log := ""
	for _, m := range e.got {
		log += hex.EncodeToString(m.Data) + "\n"
	}
	return log + hex.EncodeToString(around[100:200]) + hex.EncodeToString(sink)
}

func stagOctets(s region.STag) []byte {
	return []byte{byte(s >> 24), byte(s >> 16), byte(s >> 8), byte(s)}
}

func segmentsNoCRC(t *testing.T, b []byte) (out []verbs.Opcode) {
	for len(b) > 0 {
		n := (2 + int(b[0])<<8 + int(b[1]) + 3) &^ 3
		if len(b) < n+4 || n < 2+14 {
			t.Fatalf("answer ends in %x", b)
		}
		out = append(out, verbs.Opcode(b[3]&0x1f))
		b = b[n+4:]
	}
	return out
}

// FuzzTerminate: parsing never panics, and a Terminate that was parsed and is encoded again has the
// same meaning.
func FuzzTerminate(f *testing.F) {
	for _, g := range goldAll {
		b, _ := hex.DecodeString(g)
		f.Add(b[20 : len(b)-4])
	}
	for _, s := range siwTerminates {
		b, _ := hex.DecodeString(s.octets)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := verbs.ParseTerminate(b)
		_, _ = x.String(), x.Swapped()
		if err != nil {
			return
		}
		again := x.Append(nil)
		if len(again) != x.Size() {
			t.Fatalf("size %d, appended %d", x.Size(), len(again))
		}
		y, err := verbs.ParseTerminate(again)
		if err != nil || y.Code != x.Code || !bytes.Equal(y.DDP, x.DDP) || !bytes.Equal(y.Read, x.Read) {
			t.Fatalf("%x parsed as %+v, sent %x, parsed as %+v, %v", b, x, again, y, err)
		}
	})
}

// conversation returns a valid stream with every kind of message, made by another engine, for a peer
// with a region stag of 1000 octets.
func conversation(crc bool, stag region.STag) []byte {
	b := newEngine(engineConfig{mulpdu: 200, ord: 8, nocrc: !crc})
	b.post(
		verbs.WR{Op: verbs.OpSend, Head: []byte("hello")},
		verbs.WR{Op: verbs.OpWrite, STag: stag, Body: rdmaptest.Pattern(500)},
		verbs.WR{Op: verbs.OpSendSE, Body: rdmaptest.Pattern(700)},
		verbs.WR{Op: verbs.OpReadRequest, STag: stag, Len: 300, Sink: 7},
		verbs.WR{Op: verbs.OpReadRequest, STag: stag, Len: 0, Sink: 7},
		verbs.WR{Op: verbs.OpSend},
		verbs.WR{Op: verbs.OpWrite, STag: stag, TO: 500},
		verbs.WR{Op: verbs.OpSendSE, Body: rdmaptest.Pattern(9)},
	)
	return b.output()
}
