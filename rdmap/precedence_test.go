package rdmap

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
	{"untagged: DDP version before queue", engineConfig{recvs: 1}, 0x1206<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(patch(t, goldSend, 0, 0x40), 6, 0, 0, 0, 4)
	}},
	{"tagged: DDP version before RDMAP version", engineConfig{}, 0x1104<<16 | withHdr, patched(goldWrite, 0, 0xc0, 0x00)},
	{"queue before RDMAP version", engineConfig{recvs: 1}, 0x1201<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(patch(t, goldSend, 1, 0x03), 6, 0, 0, 0, 4)
	}},
	{"queue before opcode", engineConfig{recvs: 1}, 0x1201<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(patch(t, goldSend, 1, 0x4f), 6, 0, 0, 0, 3)
	}},
	{"RDMAP version before opcode", engineConfig{recvs: 1}, 0x0205<<16 | withHdr, patched(goldSend, 1, 0x8f)},
	{"RDMAP version before STag", engineConfig{}, 0x0205<<16 | withHdr, patched(goldWrite, 1, 0x00)},
	{"opcode before MSN", engineConfig{recvs: 1}, 0x0206<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(patch(t, goldSend, 1, 0x47), 10, 0, 0, 0, 9)
	}},
	{"opcode before STag", engineConfig{}, 0x0206<<16 | withHdr, patched(goldWrite, 1, 0x43)},
	{"opcode before a missing receive", engineConfig{}, 0x0206<<16 | withHdr, patched(goldSend, 1, 0x48)},
	{"no receive before MO", engineConfig{}, 0x1202<<16 | withHdr, patched(goldSend, 14, 0, 0, 0, 4)},
	{"MSN before MO", engineConfig{recvs: 9}, 0x1203<<16 | withHdr, patched(goldSend, 10, 0, 0, 0, 2, 0, 0, 0, 4)},
	{"MSN range before MO", engineConfig{recvs: 9}, 0x1203<<16 | withHdr, patched(goldSend, 10, 0, 0, 0, 0, 0, 0, 0, 4)},
	{"MO before length", engineConfig{recvs: 1, size: 4}, 0x1204<<16 | withHdr, patched(goldSend, 14, 0, 0, 0, 4)},
	{"MO before length in an open message", engineConfig{recvs: 1, size: 8}, 0x1204<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		e.input(fpduOf(patch(t, goldSend, 0, 0x01)))
		return patch(t, goldSend, 14, 0, 0, 0, 4)
	}},
	{"MSN before MO in an open message", engineConfig{recvs: 2}, 0x1203<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		e.input(fpduOf(patch(t, goldSend, 0, 0x01)))
		return patch(t, goldSend, 10, 0, 0, 0, 2)
	}},
	{"a missing receive before the length of Immediate Data", engineConfig{ext: verbs.Ext7306}, 0x1202<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return patch(t, goldImm, 10, 0, 0, 0, 1)[:20]
	}},
	{"write: association before right", engineConfig{}, 0x1102<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, foreignWith(t, e, region.RemoteRead), 0)
	}},
	{"write: right before wrap", engineConfig{}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 1<<64-8)
	}},
	{"write: right before bounds", engineConfig{}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return writeOf(t, own(t, e, 64, region.RemoteRead), 64)
	}},
	{"Read Response: none due before STag and bounds", engineConfig{ord: 1}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, own(t, e, 8, region.ReadSink), 8)
	}},
	{"Read Response: STag before range", engineConfig{ord: 1}, 0x1100<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e)^0x100, 4096)
	}},
	{"Read Response: range before length", engineConfig{ord: 1}, 0x1101<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return responseOf(t, reading(t, e), 4095) // L is set, and 4080 octets are missing too
	}},
	{"request: slot before length", engineConfig{}, 0x1202<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return patch(t, goldReadReq, 0)[:45]
	}},
	{"request: length before STag", engineConfig{ird: 1}, 0x0207<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return append(readOf(t, 1, 0, 64), 0)
	}},
	{"read: association before right", engineConfig{ird: 1}, 0x0103<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, foreignWith(t, e, region.RemoteWrite), 0, 64)
	}},
	{"read: right before wrap", engineConfig{ird: 1}, 0x0102<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, region.RemoteWrite), 1<<64-4, 64)
	}},
	{"read: right before bounds", engineConfig{ird: 1}, 0x0102<<16 | withRead, func(t *testing.T, e *halves) []byte {
		return readOf(t, own(t, e, 64, region.RemoteWrite), 65, 64)
	}},
	{"atomic: association before right", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0103<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, foreignWith(t, e, region.RemoteWrite), 0)
	}},
	{"atomic: right before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0102<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, allRights), 4)
	}},
	{"atomic: wrap before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0104<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, region.Atomic), 1<<64-4)
	}},
	{"atomic: bounds before alignment", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0101<<16 | withHdr, func(t *testing.T, e *halves) []byte {
		return atomicOf(t, own(t, e, 64, region.Atomic), 60)
	}},
	{"atomic: operation before STag", engineConfig{ird: 1, ext: verbs.Ext7306}, 0x0206<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
		return spoil(atomicOf(t, 1, 4), 18+3, 7)
	}},
}

// foreignWith returns an STag of another stream with some rights.
func foreignWith(t *testing.T, e *halves, a region.Access) region.STag {
	reg, err := e.snd.Table.Domain().NewTable().Register(make([]byte, 64), a)
	if err != nil {
		t.Fatal(err)
	}
	return reg.STag()
}

// TestFirstCheckWins gives the engine segments that break two rules: the Terminate names the one that is checked
// first, and quotes the headers that this one requires.
func TestFirstCheckWins(t *testing.T) {
	for _, tt := range precedenceTests {
		e := newEngine(tt.cfg)
		u := tt.build(t, e)
		e.input(fpduOf(u))
		if out, want := e.output(), wantTerminate(tt.word, u, tt.word&0x2000 != 0); !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n got %x\nwant %x", tt.name, e.err, out, want)
		}
	}
}

// TestBadCRCWins: if the CRC of an FPDU is wrong, nothing else of it is checked, not even its header (RFC 5044
// Section 8).
func TestBadCRCWins(t *testing.T) {
	for _, tt := range precedenceTests {
		e := newEngine(tt.cfg)
		b := fpduOf(tt.build(t, e))
		b[len(b)-1] ^= 1
		e.output()
		e.input(b)
		if out, want := e.output(), unhex(t, goldTermCRC); !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n got %x\nwant %x", tt.name, e.err, out, want)
		}
	}
}
