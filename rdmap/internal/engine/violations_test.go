package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestOpcodeTable: control octets and queues are those of rdmap.md Section 2.
func TestOpcodeTable(t *testing.T) {
	for op := range verbs.Opcode(len(verbs.OpCounts{})) {
		if op.String() == "" || op.Tagged() && op.Queue() != 0 || engine.ControlOctet(op) != 0x40+byte(op) {
			t.Errorf("%v: tagged %v, queue %d, control %#x", op, op.Tagged(), op.Queue(), engine.ControlOctet(op))
		}
		if op.Tagged() != (op == verbs.OpWrite || op == verbs.OpReadResponse) {
			t.Errorf("%v: tagged %v", op, op.Tagged())
		}
	}
	if verbs.Opcode(0x12).String() != "Opcode(0x12)" || verbs.Opcode(0x12).Queue() != 0 || verbs.Opcode(0x12).Tagged() {
		t.Error("unknown opcode")
	}
	if !verbs.OpImmediateSE.Solicited() || verbs.OpSendInvalidate.Solicited() || !verbs.OpSendSEInvalidate.Invalidates() {
		t.Error("flags")
	}
}

// violationTest breaks one rule. build returns the ULPDU at fault; by then it has given everything before
// it to the engine.
type violationTest struct {
	name  string
	cfg   engineConfig
	word  uint32 // layer, etype, code in the upper half; M, D, R in the lower
	build func(t *testing.T, e *halves) []byte
}

func patched(vector string, at int, with ...byte) func(*testing.T, *halves) []byte {
	return func(t *testing.T, _ *halves) []byte { return rdmaptest.Patch(t, vector, at, with...) }
}

// writeOf returns the Write of vector 4.1 with another target.
func writeOf(t testing.TB, stag region.STag, to uint64) []byte {
	u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.GoldWrite))
	binary.BigEndian.PutUint32(u[2:], uint32(stag))
	binary.BigEndian.PutUint64(u[6:], to)
	return u
}

func foreign(t *testing.T, e *halves) region.STag {
	other := e.snd.Table.Domain().NewTable()
	reg := must(other.Register(make([]byte, 64), rdmaptest.AllRights))(t)
	return reg.STag()
}

func own(t *testing.T, e *halves, n int, a region.Access) region.STag {
	_, reg := e.register(t, n, a)
	return reg.STag()
}

// reading starts a Read of 4096 octets and returns its sink.
func reading(t *testing.T, e *halves) region.STag {
	sink := own(t, e, 4096, region.ReadSink)
	e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink, Len: 4096})
	e.output()
	return sink
}

var violationTests = []violationTest{
	// DDP, test-vectors.md Section 8.
	{"DDP version, untagged", engineConfig{recvs: 1}, 0x1206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 0, 0x40)},
	{"DDP version, tagged", engineConfig{}, 0x1104<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 0, 0xc0)},
	{"queue 4", engineConfig{recvs: 1}, 0x1201<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 6, 0, 0, 0, 4)},
	{"MSN 2 first", engineConfig{recvs: 5}, 0x1203<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 10, 0, 0, 0, 2)},
	{"MSN beyond the window", engineConfig{recvs: 1}, 0x1202<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 10, 0, 0, 0, 2)},
	{"no receive posted", engineConfig{}, 0x1202<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 0)},
	{"MO 4 first", engineConfig{recvs: 1}, 0x1204<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 14, 0, 0, 0, 4)},
	{"longer than the buffer", engineConfig{recvs: 1, size: 4}, 0x1205<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 0)},
	{"too short for a header", engineConfig{}, 0x1000 << 16, func(t *testing.T, _ *halves) []byte {
		return rdmaptest.Patch(t, rdmaptest.GoldSend, 0)[:17]
	}},
	{"empty ULPDU", engineConfig{}, 0x1000 << 16, func(*testing.T, *halves) []byte { return nil }},
	{"write, unknown STag", engineConfig{}, 0x1100<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 0)},
	{"write, no right", engineConfig{}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 0)
	}},
	{"write, out of bounds", engineConfig{}, 0x1101<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, rdmaptest.AllRights), 49)
	}},
	{"write, TO wraps", engineConfig{}, 0x1103<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, rdmaptest.AllRights), 1<<64-8)
	}},
	{"write, another stream's STag", engineConfig{}, 0x1102<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, foreign(t, e), 0)
	}},
	{"request beyond IRD", engineConfig{ird: 1}, 0x1202<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		u := rdmaptest.ReadRequest(t, 1, 0, 0)
		e.input(rdmaptest.FPDU(u))
		u[13] = 2 // MSN
		return u
	}},
	// RDMAP.
	{"RDMAP version", engineConfig{recvs: 1}, 0x0205<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x03)},
	{"unknown opcode", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x4f)},
	{"opcode with bit 0x10", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x53)},
	{"Send on queue 1", engineConfig{recvs: 1, ird: 1}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 6, 0, 0, 0, 1)},
	{"tagged Send", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 1, 0x43)},
	{"untagged Write", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x40)},
	{"Immediate without RFC 7306", engineConfig{recvs: 6}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldImm, 0)},
	{"Atomic Write Response, no queue 3", engineConfig{}, 0x1201<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldAWResp, 0)},
	{"opcode changes in a message", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		e.input(rdmaptest.FPDU(rdmaptest.Patch(t, rdmaptest.GoldSend, 0, 0x01)))
		return rdmaptest.Patch(t, rdmaptest.GoldSendSE, 10, 0, 0, 0, 1, 0, 0, 0, 5)
	}},
	{"Read Request of 27 octets", engineConfig{ird: 1}, 0x0207<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return rdmaptest.Patch(t, rdmaptest.GoldReadReq, 0)[:45]
	}},
	{"Read Request of 29 octets", engineConfig{ird: 1}, 0x0207<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return append(rdmaptest.Patch(t, rdmaptest.GoldReadReq, 0), 0)
	}},
	{"Read Response, none due", engineConfig{}, 0x1100<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldReadResp, 0)},
	{"Read Response, other STag", engineConfig{ord: 1}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e)^0x100, 0)
	}},
	{"Read Response, beyond the end", engineConfig{ord: 1}, 0x1101<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e), 4096-15)
	}},
	{"Read Response, before the start", engineConfig{ord: 1}, 0x1101<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e), 1<<64-1)
	}},
	{"Read Response, too short", engineConfig{ord: 1}, 0x02ff<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e), 0)
	}},
	{"empty Read Response to a Read of 4096", engineConfig{ord: 1}, 0x02ff<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e), 0)[:14]
	}},
	{"invalidate: unknown STag", engineConfig{recvs: 5}, 0x0109<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return rdmaptest.Patch(t, rdmaptest.GoldSendInv, 13, 1)
	}},
	{"invalidate: no right", engineConfig{recvs: 5}, 0x0109<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		u := rdmaptest.Patch(t, rdmaptest.GoldSendInv, 13, 1)
		binary.BigEndian.PutUint32(u[2:], uint32(own(t, e, 1, region.RemoteRead)))
		return u
	}},
	{"invalidate: shared STag", engineConfig{recvs: 5}, 0x0109<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		reg, err := e.snd.Table.Domain().RegisterShared(region.Bytes{1}, region.Options{Access: rdmaptest.AllRights})
		if err != nil {
			t.Fatal(err)
		}
		u := rdmaptest.Patch(t, rdmaptest.GoldSendInv, 13, 1)
		binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
		return u
	}},
	{"read: unknown STag", engineConfig{ird: 1}, 0x0100<<16 | rdmaptest.WithRead, patched(rdmaptest.GoldReadReq, 0)},
	{"read: past the end", engineConfig{ird: 1}, 0x0101<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, rdmaptest.AllRights), 1, 64)
	}},
	{"read: size 2^32-1", engineConfig{ird: 1}, 0x0101<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, rdmaptest.AllRights), 0, 1<<32-1)
	}},
	{"read: no right", engineConfig{ird: 1}, 0x0102<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, region.RemoteWrite), 0, 64)
	}},
	{"read: another stream's STag", engineConfig{ird: 1}, 0x0103<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, foreign(t, e), 0, 64)
	}},
	{"read: TO wraps", engineConfig{ird: 1}, 0x0104<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, rdmaptest.AllRights), 1<<64-4, 64)
	}},
}

// TestRefusalIsFinal: nothing after a segment that RDMAP has refused is handled.
func TestRefusalIsFinal(t *testing.T) {
	e := newEngine(engineConfig{recvs: 2})
	_, first := e.rcv.Input(rdmaptest.Patch(t, rdmaptest.GoldSend, 1, 0x4f))
	if _, err := e.rcv.Input(rdmaptest.Patch(t, rdmaptest.GoldSend, 0)); first == nil || !errors.Is(err, first) {
		t.Errorf("%v, and then %v", first, err)
	}
}

// TestStrangeButLegal: segments that look wrong but are legal.
func TestStrangeButLegal(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   engineConfig
		build func(t *testing.T, e *halves) []byte
	}{
		{"reserved bits in the control octets", engineConfig{recvs: 1}, patched(rdmaptest.GoldSend, 0, 0x41|0x3c, 0x43|0x20)},
		{"bit 0x10 on a tagged segment", engineConfig{}, func(t *testing.T, e *halves) []byte {
			u := writeOf(t, own(t, e, 16, rdmaptest.AllRights), 0)
			u[1] |= 0x10
			return u
		}},
		{"Invalidate STag field in a plain Send", engineConfig{recvs: 1}, patched(rdmaptest.GoldSend, 2, 1, 2, 3, 4)},
		{"empty Write to nowhere", engineConfig{}, func(t *testing.T, _ *halves) []byte { return rdmaptest.Patch(t, rdmaptest.GoldWrite, 0)[:14] }},
		{"empty Read of nothing", engineConfig{ird: 1}, func(t *testing.T, _ *halves) []byte { return rdmaptest.ReadRequest(t, 0, 1<<64-1, 0) }},
	} {
		e := newEngine(tt.cfg)
		e.input(rdmaptest.FPDU(tt.build(t, e)))
		e.output()
		if e.err != nil {
			t.Errorf("%s: %v", tt.name, e.err)
		}
	}
}

// spoil replaces octets of the ULPDU u, which breaks one more rule.
func spoil(u []byte, at int, with ...byte) []byte {
	copy(u[at:], with)
	return u
}

// atomicOf returns the FetchAdd of vector 4.18 as the first request, with another target.
func atomicOf(t testing.TB, stag region.STag, to uint64) []byte {
	u := retarget(t, goldFetchAdd, 8, stag, 1)
	binary.BigEndian.PutUint64(u[18+12:], to)
	return u
}

// precedenceTests break two rules with one segment, which are adjacent in the order of RFC 5040 Section 7.2 and
// RFC 5041 Section 7.1: DDP version and queue, RDMAP version, opcode, then DDP's numbers or the STag, then the
// length of the message, then its contents.
var precedenceTests = []violationTest{
	{"untagged: DDP version before queue", engineConfig{recvs: 1}, 0x1206<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(rdmaptest.Patch(t, rdmaptest.GoldSend, 0, 0x40), 6, 0, 0, 0, 4)
	}},
	{"tagged: DDP version before RDMAP version", engineConfig{}, 0x1104<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 0, 0xc0, 0x00)},
	{"queue before RDMAP version", engineConfig{recvs: 1}, 0x1201<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(rdmaptest.Patch(t, rdmaptest.GoldSend, 1, 0x03), 6, 0, 0, 0, 4)
	}},
	{"queue before opcode", engineConfig{recvs: 1}, 0x1201<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(rdmaptest.Patch(t, rdmaptest.GoldSend, 1, 0x4f), 6, 0, 0, 0, 3)
	}},
	{"RDMAP version before opcode", engineConfig{recvs: 1}, 0x0205<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x8f)},
	{"RDMAP version before STag", engineConfig{}, 0x0205<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 1, 0x00)},
	{"opcode before MSN", engineConfig{recvs: 1}, 0x0206<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(rdmaptest.Patch(t, rdmaptest.GoldSend, 1, 0x47), 10, 0, 0, 0, 9)
	}},
	{"opcode before STag", engineConfig{}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldWrite, 1, 0x43)},
	{"opcode before a missing receive", engineConfig{}, 0x0206<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 1, 0x48)},
	{"no receive before MO", engineConfig{}, 0x1202<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 14, 0, 0, 0, 4)},
	{"MSN before MO", engineConfig{recvs: 9}, 0x1203<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 10, 0, 0, 0, 2, 0, 0, 0, 4)},
	{"MSN range before MO", engineConfig{recvs: 9}, 0x1203<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 10, 0, 0, 0, 0, 0, 0, 0, 4)},
	{"MO before length", engineConfig{recvs: 1, size: 4}, 0x1204<<16 | rdmaptest.WithHdr, patched(rdmaptest.GoldSend, 14, 0, 0, 0, 4)},
	{"MO before length in an open message", engineConfig{recvs: 1, size: 8}, 0x1204<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		e.input(rdmaptest.FPDU(rdmaptest.Patch(t, rdmaptest.GoldSend, 0, 0x01)))
		return rdmaptest.Patch(t, rdmaptest.GoldSend, 14, 0, 0, 0, 4)
	}},
	{"MSN before MO in an open message", engineConfig{recvs: 2}, 0x1203<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		e.input(rdmaptest.FPDU(rdmaptest.Patch(t, rdmaptest.GoldSend, 0, 0x01)))
		return rdmaptest.Patch(t, rdmaptest.GoldSend, 10, 0, 0, 0, 2)
	}},
	{"a missing receive before the length of Immediate Data", engineConfig{ext: verbs.Ext7306}, 0x1202<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return rdmaptest.Patch(t, rdmaptest.GoldImm, 10, 0, 0, 0, 1)[:20]
	}},
	{"write: association before right", engineConfig{}, 0x1102<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, foreignWith(t, e, region.RemoteRead), 0)
	}},
	{"write: right before wrap", engineConfig{}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 1<<64-8)
	}},
	{"write: right before bounds", engineConfig{}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 64)
	}},
	{"Read Response: none due before STag and bounds", engineConfig{ord: 1}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, own(t, e, 8, region.ReadSink), 8)
	}},
	{"Read Response: STag before range", engineConfig{ord: 1}, 0x1100<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e)^0x100, 4096)
	}},
	{"Read Response: range before length", engineConfig{ord: 1}, 0x1101<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadResponse(t, reading(t, e), 4095) // L is set, and 4080 octets are missing too
	}},
	{"request: slot before length", engineConfig{}, 0x1202<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return rdmaptest.Patch(t, rdmaptest.GoldReadReq, 0)[:45]
	}},
	{"request: length before STag", engineConfig{ird: 1}, 0x0207<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return append(rdmaptest.ReadRequest(t, 1, 0, 64), 0)
	}},
	{"read: association before right", engineConfig{ird: 1}, 0x0103<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, foreignWith(t, e, region.RemoteWrite), 0, 64)
	}},
	{"read: right before wrap", engineConfig{ird: 1}, 0x0102<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, region.RemoteWrite), 1<<64-4, 64)
	}},
	{"read: right before bounds", engineConfig{ird: 1}, 0x0102<<16 | rdmaptest.WithRead, func(t *testing.T, e *halves) []byte {
		return rdmaptest.ReadRequest(t, own(t, e, 64, region.RemoteWrite), 65, 64)
	}},
	{"atomic: association before right", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0103<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, foreignWith(t, e, region.RemoteWrite), 0)
	}},
	{"atomic: right before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0102<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, rdmaptest.AllRights), 4)
	}},
	{"atomic: wrap before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0104<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, region.Atomic), 1<<64-4)
	}},
	{"atomic: bounds before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0101<<16 | rdmaptest.WithHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, region.Atomic), 60)
	}},
	{"atomic: operation before STag", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0206<<16 | rdmaptest.WithHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(atomicOf(t, 1, 4), 18+3, 7)
	}},
}

// foreignWith returns an STag of another stream with some rights.
func foreignWith(t *testing.T, e *halves, a region.Access) region.STag {
	reg := must(e.snd.Table.Domain().NewTable().Register(make([]byte, 64), a))(t)
	return reg.STag()
}

// TestFirstCheckWins gives the engine segments that break two rules: the Terminate names the one that is checked
// first, and quotes the headers that this one requires.
func TestFirstCheckWins(t *testing.T) {
	for _, tt := range precedenceTests {
		e := newEngine(tt.cfg)
		u := tt.build(t, e)
		e.input(rdmaptest.FPDU(u))
		if out, want := e.output(), rdmaptest.WantTerminate(tt.word, u, tt.word&0x2000 != 0); !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n got %x\nwant %x", tt.name, e.err, out, want)
		}
	}
}

// TestBadCRCWins: if the CRC of an FPDU is wrong, nothing else of it is checked, not even its header (RFC 5044
// Section 8).
func TestBadCRCWins(t *testing.T) {
	for _, tt := range precedenceTests {
		e := newEngine(tt.cfg)
		b := rdmaptest.FPDU(tt.build(t, e))
		b[len(b)-1] ^= 1
		e.output()
		e.input(b)
		if out, want := e.output(), rdmaptest.Unhex(t, rdmaptest.GoldTermCRC); !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n got %x\nwant %x", tt.name, e.err, out, want)
		}
	}
}
