package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// wantTerminate builds the FPDU of a Terminate for a segment u (rdmap.md Section 4.1), without using the
// engine's code.
func wantTerminate(word uint32, u []byte, read bool) []byte {
	b := []byte{0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, word)
	if u != nil {
		b = binary.BigEndian.AppendUint16(b, uint16(len(u)))
		n := 18
		if u[0]&0x80 != 0 {
			n = 14
		}
		b = append(b, u[:n]...)
		if read {
			b = append(b, u[n:n+28]...)
		}
	}
	return fpduOf(b)
}

const (
	noParts   = 0
	withHdr   = 0xc000 // M, D
	withRead  = 0xe000 // M, D, R
	allRights = region.RemoteRead | region.RemoteWrite | region.RemoteInvalidate
)

// violationTest breaks one rule. build returns the ULPDU at fault; by then it has given everything before
// it to the engine.
type violationTest struct {
	name  string
	cfg   engineConfig
	word  uint32 // layer, etype, code in the upper half; M, D, R in the lower
	build func(t *testing.T, e *halves) []byte
}

// patch returns the ULPDU of a vector with octets replaced.
func patch(t testing.TB, vector string, at int, with ...byte) []byte {
	u := ulpduOf(t, unhex(t, vector))
	copy(u[at:], with)
	return u
}

func patched(vector string, at int, with ...byte) func(*testing.T, *halves) []byte {
	return func(t *testing.T, _ *halves) []byte { return patch(t, vector, at, with...) }
}

// readOf returns the Read Request of vector 4.2 with another source and size.
func readOf(t testing.TB, stag region.STag, to uint64, size uint32) []byte {
	u := ulpduOf(t, unhex(t, goldReadReq))
	binary.BigEndian.PutUint32(u[18+12:], size)
	binary.BigEndian.PutUint32(u[18+16:], uint32(stag))
	binary.BigEndian.PutUint64(u[18+20:], to)
	return u
}

// writeOf returns the Write of vector 4.1 with another target.
func writeOf(t testing.TB, stag region.STag, to uint64) []byte {
	u := ulpduOf(t, unhex(t, goldWrite))
	binary.BigEndian.PutUint32(u[2:], uint32(stag))
	binary.BigEndian.PutUint64(u[6:], to)
	return u
}

// responseOf returns the Read Response of vector 4.3 with another sink.
func responseOf(t testing.TB, stag region.STag, to uint64) []byte {
	u := ulpduOf(t, unhex(t, goldReadResp))
	binary.BigEndian.PutUint32(u[2:], uint32(stag))
	binary.BigEndian.PutUint64(u[6:], to)
	return u
}

func foreign(t *testing.T, e *halves) region.STag {
	other := e.snd.Table.Domain().NewTable()
	reg, err := other.Register(make([]byte, 64), allRights)
	if err != nil {
		t.Fatal(err)
	}
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
	{"DDP version, untagged", engineConfig{recvs: 1}, 0x1206<<16 | withHdr, patched(goldSend, 0, 0x40)},
	{"DDP version, tagged", engineConfig{}, 0x1104<<16 | withHdr, patched(goldWrite, 0, 0xc0)},
	{"queue 4", engineConfig{recvs: 1}, 0x1201<<16 | withHdr, patched(goldSend, 6, 0, 0, 0, 4)},
	{"MSN 2 first", engineConfig{recvs: 5}, 0x1203<<16 | withHdr, patched(goldSend, 10, 0, 0, 0, 2)},
	{"MSN beyond the window", engineConfig{recvs: 1}, 0x1202<<16 | withHdr, patched(goldSend, 10, 0, 0, 0, 2)},
	{"no receive posted", engineConfig{}, 0x1202<<16 | withHdr, patched(goldSend, 0)},
	{"MO 4 first", engineConfig{recvs: 1}, 0x1204<<16 | withHdr, patched(goldSend, 14, 0, 0, 0, 4)},
	{"longer than the buffer", engineConfig{recvs: 1, size: 4}, 0x1205<<16 | withHdr, patched(goldSend, 0)},
	{"too short for a header", engineConfig{}, 0x1000 << 16, func(t *testing.T, _ *halves) []byte {
		return patch(t, goldSend, 0)[:17]
	}},
	{"empty ULPDU", engineConfig{}, 0x1000 << 16, func(*testing.T, *halves) []byte { return nil }},
	{"write, unknown STag", engineConfig{}, 0x1100<<16 | withHdr, patched(goldWrite, 0)},
	{"write, no right", engineConfig{}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 0)
	}},
	{"write, out of bounds", engineConfig{}, 0x1101<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, allRights), 49)
	}},
	{"write, TO wraps", engineConfig{}, 0x1103<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, allRights), 1<<64-8)
	}},
	{"write, another stream's STag", engineConfig{}, 0x1102<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, foreign(t, e), 0)
	}},
	{"request beyond IRD", engineConfig{ird: 1}, 0x1202<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		u := readOf(t, 1, 0, 0)
		e.input(fpduOf(u))
		u[13] = 2 // MSN
		return u
	}},
	// RDMAP.
	{"RDMAP version", engineConfig{recvs: 1}, 0x0205<<16 | withHdr, patched(goldSend, 1, 0x03)},
	{"unknown opcode", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, patched(goldSend, 1, 0x4f)},
	{"opcode with bit 0x10", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, patched(goldSend, 1, 0x53)},
	{"Send on queue 1", engineConfig{recvs: 1, ird: 1}, 0x0206<<16 | withHdr, patched(goldSend, 6, 0, 0, 0, 1)},
	{"tagged Send", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, patched(goldWrite, 1, 0x43)},
	{"untagged Write", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, patched(goldSend, 1, 0x40)},
	{"Immediate without RFC 7306", engineConfig{recvs: 6}, 0x0206<<16 | withHdr, patched(goldImm, 0)},
	{"Atomic Write Response, no queue 3", engineConfig{}, 0x1201<<16 | withHdr, patched(goldAWResp, 0)},
	{"opcode changes in a message", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		e.input(fpduOf(patch(t, goldSend, 0, 0x01)))
		return patch(t, goldSendSE, 10, 0, 0, 0, 1, 0, 0, 0, 5)
	}},
	{"Read Request of 27 octets", engineConfig{ird: 1}, 0x0207<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return patch(t, goldReadReq, 0)[:45]
	}},
	{"Read Request of 29 octets", engineConfig{ird: 1}, 0x0207<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return append(patch(t, goldReadReq, 0), 0)
	}},
	{"Read Response, none due", engineConfig{}, 0x1100<<16 | withHdr, patched(goldReadResp, 0)},
	{"Read Response, other STag", engineConfig{ord: 1}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e)^0x100, 0)
	}},
	{"Read Response, beyond the end", engineConfig{ord: 1}, 0x1101<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e), 4096-15)
	}},
	{"Read Response, before the start", engineConfig{ord: 1}, 0x1101<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e), 1<<64-1)
	}},
	{"Read Response, too short", engineConfig{ord: 1}, 0x02ff<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e), 0)
	}},
	{"empty Read Response to a Read of 4096", engineConfig{ord: 1}, 0x02ff<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e), 0)[:14]
	}},
	{"invalidate: unknown STag", engineConfig{recvs: 5}, 0x0109<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return patch(t, goldSendInv, 13, 1)
	}},
	{"invalidate: no right", engineConfig{recvs: 5}, 0x0109<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		u := patch(t, goldSendInv, 13, 1)
		binary.BigEndian.PutUint32(u[2:], uint32(own(t, e, 1, region.RemoteRead)))
		return u
	}},
	{"invalidate: shared STag", engineConfig{recvs: 5}, 0x0109<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		reg, err := e.snd.Table.Domain().RegisterShared(region.Bytes{1}, region.Options{Access: allRights})
		if err != nil {
			t.Fatal(err)
		}
		u := patch(t, goldSendInv, 13, 1)
		binary.BigEndian.PutUint32(u[2:], uint32(reg.STag()))
		return u
	}},
	{"read: unknown STag", engineConfig{ird: 1}, 0x0100<<16 | withRead, patched(goldReadReq, 0)},
	{"read: past the end", engineConfig{ird: 1}, 0x0101<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, allRights), 1, 64)
	}},
	{"read: size 2^32-1", engineConfig{ird: 1}, 0x0101<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, allRights), 0, 1<<32-1)
	}},
	{"read: no right", engineConfig{ird: 1}, 0x0102<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, region.RemoteWrite), 0, 64)
	}},
	{"read: another stream's STag", engineConfig{ird: 1}, 0x0103<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, foreign(t, e), 0, 64)
	}},
	{"read: TO wraps", engineConfig{ird: 1}, 0x0104<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, allRights), 1<<64-4, 64)
	}},
}

// TestViolations breaks each rule and compares the Terminate octet by octet. The first error wins, and
// nothing is executed after it (RFC 5040 Section 7).
func TestViolations(t *testing.T) {
	for _, tt := range violationTests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(tt.cfg)
			u := tt.build(t, e)
			e.input(fpduOf(u))
			out := e.output()
			if tt.name == "request beyond IRD" {
				out = out[len(out)-len(wantTerminate(tt.word, u, false)):]
			}
			var quoted []byte
			if tt.word&0xffff != noParts {
				quoted = u
			}
			want := wantTerminate(tt.word, quoted, tt.word&0x2000 != 0)
			if !bytes.Equal(out, want) {
				t.Fatalf("error %v\n got %x\nwant %x", e.err, out, want)
			}
			clear(e.in) // the error must not refer to the input
			pe, ok := errors.AsType[*verbs.ProtocolError](e.err)
			if told := pe.Terminate; ok && !bytes.Equal(told.Append(nil), ulpduOf(t, want)[18:]) {
				t.Errorf("the upper layer is told %x", told.Append(nil))
			}
			if !ok || pe.Code != (verbs.TermCode{Layer: uint8(tt.word >> 28), EType: uint8(tt.word>>24) & 15, Code: uint8(tt.word >> 16)}) {
				t.Fatalf("error %v", e.err)
			}
			e.input(fpduOf(patch(t, goldSend, 0)))
			if len(e.output()) > 0 || len(e.got) > 0 {
				t.Fatal("something happened after the Terminate")
			}
		})
	}
}

// TestRefusalIsFinal: nothing after a segment that RDMAP has refused is handled.
func TestRefusalIsFinal(t *testing.T) {
	e := newEngine(engineConfig{recvs: 2})
	_, first := e.rcv.Input(patch(t, goldSend, 1, 0x4f))
	if _, err := e.rcv.Input(patch(t, goldSend, 0)); first == nil || !errors.Is(err, first) {
		t.Errorf("%v, and then %v", first, err)
	}
}

// TestBadCRC: every FPDU of Section 4 with one payload bit flipped.
func TestBadCRC(t *testing.T) {
	want := unhex(t, goldTermCRC)
	for _, v := range []string{
		goldWrite, goldReadReq, goldReadResp, goldSend, goldSendInv, goldSendSE, goldSendSEI,
		goldTermSTag, goldTermRead, goldImm, goldAWResp, goldStalePad,
	} {
		b := unhex(t, v)
		b[2+17] ^= 0x10
		e := newEngine(engineConfig{recvs: 9, ird: 9})
		e.input(b)
		if out := e.output(); !bytes.Equal(out, want) {
			t.Errorf("%s: got %x", v, out)
		}
	}
}

// TestStrangeButLegal: segments that look wrong but are legal.
func TestStrangeButLegal(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   engineConfig
		build func(t *testing.T, e *halves) []byte
	}{
		{"reserved bits in the control octets", engineConfig{recvs: 1}, patched(goldSend, 0, 0x41|0x3c, 0x43|0x20)},
		{"bit 0x10 on a tagged segment", engineConfig{}, func(t *testing.T, e *halves) []byte {
			u := writeOf(t, own(t, e, 16, allRights), 0)
			u[1] |= 0x10
			return u
		}},
		{"Invalidate STag field in a plain Send", engineConfig{recvs: 1}, patched(goldSend, 2, 1, 2, 3, 4)},
		{"empty Write to nowhere", engineConfig{}, func(t *testing.T, _ *halves) []byte { return patch(t, goldWrite, 0)[:14] }},
		{"empty Read of nothing", engineConfig{ird: 1}, func(t *testing.T, _ *halves) []byte { return readOf(t, 0, 1<<64-1, 0) }},
	} {
		e := newEngine(tt.cfg)
		e.input(fpduOf(tt.build(t, e)))
		e.output()
		if e.err != nil {
			t.Errorf("%s: %v", tt.name, e.err)
		}
	}
}

// TestTermTable looks at every violation: each has a code, a section and a text, and no two have the same
// text.
func TestTermTable(t *testing.T) {
	seen := make(map[string]engine.Violation)
	for v := range engine.NumViolations {
		row := engine.Violations[v]
		if !row.Code.Registered() || row.Section == "" || row.Text == "" {
			t.Errorf("violation %d: row %+v", v, row)
		}
		if old, ok := seen[row.Text]; ok {
			t.Errorf("violations %d and %d share a text", old, v)
		}
		// These sections are about RDMA Writes, for which RDMAP has no rules of its own.
		if row.Section == "RFC 5040 Section 4.3" || row.Section == "RFC 5040 Section 5.1" {
			t.Errorf("violation %d, %s: %s is about RDMA Writes", v, row.Text, row.Section)
		}
		seen[row.Text] = v
	}
}
