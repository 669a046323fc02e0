package chunks_test

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
)

// unhex reads a dump in which blanks and line ends mean nothing.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// seeded returns a source whose seed the log names.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %#x", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// ramp returns n octets that differ from their neighbours and from 0.
func ramp(n int, first byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i%251)
		if b[i] == 0 {
			b[i] = 0xee
		}
	}
	return b
}

// peerMemory is the memory of a peer: one slice per handle, at an offset of its
// own.
type peerMemory struct {
	mem  [][]byte
	base []uint64
}

// offer registers b and returns its segment.
func (p *peerMemory) offer(b []byte) chunks.Segment {
	base := uint64(0x1_0000_0000)*uint64(len(p.mem)+1) + 7
	p.mem, p.base = append(p.mem, b), append(p.base, base)
	return chunks.Segment{Handle: chunks.Handle(len(p.mem) - 1), Length: uint32(len(b)), Offset: base}
}

// at returns the octets of a segment; it fails outside of what was offered.
func (p *peerMemory) at(t testing.TB, h chunks.Handle, off uint64, n int) []byte {
	t.Helper()
	if int(h) >= len(p.mem) || off < p.base[h] || off-p.base[h]+uint64(n) > uint64(len(p.mem[h])) {
		t.Fatalf("access to %v at %#x, %d octets, outside the offered memory", h, off, n)
	}
	return p.mem[h][off-p.base[h]:][:n]
}

// rebuild does what a responder does with a layout.
func (p *peerMemory) rebuild(t testing.TB, l *chunks.Layout, inline []byte) []byte {
	t.Helper()
	buf := make([]byte, l.Total)
	for i := range buf {
		buf[i] = 0xa5 // so that an octet nobody places is seen
	}
	l.Place(buf, inline)
	for _, q := range l.Pulls {
		copy(buf[q.Dst:q.Dst+int(q.Length)], p.at(t, q.Handle, q.Offset, int(q.Length)))
	}
	return buf
}
