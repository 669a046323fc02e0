package rpcrdma_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
)

// oDefers has the data of a call left at the peer, and then brings it together by what
// Reduced says: count words where they are, data where they are missing. It reports whether
// it was deferred. Afterwards the call can be pulled as if nothing had been.
func oDefers(t *testing.T, r *rpcrdma.Responder, h *oHeader, in *rpcrdma.Inbound, mem oMemory, want []byte, legal bool) bool {
	t.Helper()
	args := in.Args
	v := r.Defer(in)
	switch {
	case h.proc == 1:
		if v != rpcrdma.Pull {
			t.Fatalf("a long call was deferred: %v\n%+v", v, h)
		}
		return false
	case legal != (v == rpcrdma.Dispatch):
		t.Fatalf("the oracle says %v, Defer %v: %v\n%+v", legal, v, in.Err, h)
	case !legal:
		return false
	}
	var msg []byte
	from := 0
	for i, c := range in.Layout.Chunks {
		pos, n := in.Reduced(i)
		msg = append(msg, args[from:pos]...)
		from = pos
		var data []byte
		for _, p := range in.Layout.Pulls {
			if p.Dst >= c.Pos && p.Dst < c.Pos+c.Len {
				data = append(data, mem.at(uint64(p.Handle), p.Offset, uint64(p.Length))...)
			}
		}
		if n > len(data) {
			t.Fatalf("chunk %d: a count of %d for %d octets\n%+v", i, n, len(data), h)
		}
		msg = append(msg, data...) // with pad, if the chunk brings it
		for len(msg)%4 != 0 {
			msg = append(msg, 0)
		}
	}
	msg = append(msg, args[from:]...)
	if in.Unreduced() != len(msg) || len(want) < 40 || !bytes.Equal(msg, want[40:]) {
		t.Fatalf("%+v\n got %x\nwant %x", h, msg, want)
	}
	return true
}
