package rpcrdma_test

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
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
		b[i] = max(first+byte(i%251), 1)
	}
	return b
}

// memory is what one side has registered: a slice per handle, at an offset of
// its own. Access outside fails the test, as it would end the connection.
type memory struct {
	t    testing.TB
	mem  map[chunks.Handle][]byte
	base map[chunks.Handle]uint64
	next chunks.Handle
}

func newMemory(t testing.TB) *memory {
	return &memory{t, map[chunks.Handle][]byte{}, map[chunks.Handle]uint64{}, 0x100}
}

// offer registers b in n segments.
func (m *memory) offer(c chunks.WriteChunk, b []byte, n int) chunks.WriteChunk {
	for i := range n {
		k := len(b) / (n - i)
		m.next++
		base := uint64(m.next)<<32 + 0xff8
		m.mem[m.next], m.base[m.next] = b[:k], base
		c = append(c, chunks.Segment{Handle: m.next, Length: uint32(k), Offset: base})
		b = b[k:]
	}
	return c
}

// at returns n octets of registered memory.
func (m *memory) at(h chunks.Handle, off uint64, n int) []byte {
	m.t.Helper()
	b, base := m.mem[h], m.base[h]
	if b == nil || off < base || off-base+uint64(n) > uint64(len(b)) {
		m.t.Fatalf("access to %v at %#x, %d octets, outside the registered memory", h, off, n)
	}
	return b[off-base:][:n]
}

// pull does the RDMA Reads of a responder and returns the message.
func (m *memory) pull(in *rpcrdma.Inbound) []byte {
	buf := make([]byte, in.Layout.Total)
	for i := range buf {
		buf[i] = 0xa5
	}
	in.Layout.Place(buf, in.Payload)
	for _, p := range in.Layout.Pulls {
		copy(buf[p.Dst:p.Dst+int(p.Length)], m.at(p.Handle, p.Offset, int(p.Length)))
	}
	return buf
}

// write does the RDMA Writes of a reply and returns the octets written.
func (m *memory) write(ws []chunks.Write) (n int) {
	for _, w := range ws {
		n += copy(m.at(w.Handle, w.Offset, len(w.Data)), w.Data)
	}
	return n
}

// rpcCall returns an RPC call message up to its arguments: 40 octets.
func rpcCall(xid, proc uint32) []byte {
	return xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 100003, Vers: 3, Proc: proc})
}

// rpcReply returns an accepted reply header: 24 octets.
func rpcReply(xid uint32) []byte { return xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}) }

// post tells the responder that the receives it needs are posted.
func post(r *rpcrdma.Responder) { r.Credits().Posted(r.Credits().Need()) }

// newResponder returns a machine with its first receives posted.
func newResponder(cfg rpcrdma.ResponderConfig) *rpcrdma.Responder {
	if cfg.Binding == nil {
		cfg.Binding = chunks.NFSv3
	}
	r := made(rpcrdma.NewResponder(cfg))
	post(r)
	return r
}

// made is for settings that are in range.
func made[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
