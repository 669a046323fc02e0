package rdmap

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// minCompare is the least number of octets that a compare-only Verify may cover. The content of
// fewer could be found by trying hashes, which would amount to a Read.
const minCompare = 64

// wantedHash is the hash that a Verify Request carries, kept for as long as the response is due: a response with
// another one would tell a caller who does not compare, such as a commit log, that his octets are there.
type wantedHash struct {
	n   int
	sum [maxHash]byte
}

var hashes = sync.Pool{New: func() any { return new(wantedHash) }}

func (h *wantedHash) set(head, body []byte) *wantedHash {
	h.n = copy(h.sum[:], head)
	h.n += copy(h.sum[h.n:], body)
	return h
}

func (h *wantedHash) octets() []byte { return h.sum[:h.n] }

// target is the head of every commit request: off 0 STag, 4 length, 8 TO (8 octets).
type target struct {
	stag region.STag
	n    uint32
	to   uint64
}

const targetLen = 16

func (g *target) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(g.stag))
	b = binary.BigEndian.AppendUint32(b, g.n)
	return binary.BigEndian.AppendUint64(b, g.to)
}

func (g *target) parse(b []byte) {
	g.stag = region.STag(binary.BigEndian.Uint32(b))
	g.n = binary.BigEndian.Uint32(b[4:])
	g.to = binary.BigEndian.Uint64(b[8:])
}

// executeFlush executes a Flush Request. Choice: also if it covers no octets, STag, rights and bounds are
// checked, since the requester takes the answer for a promise about that memory; if it has no flags, the
// right to flush for visibility is needed; unknown flags are ignored.
func executeFlush(it *item, t *region.Table) error {
	var g target
	g.parse(it.req.body[:])
	flags := verbs.FlushFlags(it.req.body[targetLen+3])
	it.respond(verbs.OpFlushResponse, 0)
	if g.n == 0 && mutant.FlushUnchecked {
		return nil
	}
	need := region.FlushVisible
	if flags&verbs.FlushPersistent != 0 {
		need = region.FlushPersistent
		if flags&verbs.FlushVisible != 0 {
			need |= region.FlushVisible
		}
	}
	view, err := t.Lookup(g.stag, g.to, g.n, need)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	if flags&verbs.FlushPersistent == 0 || g.n == 0 {
		return nil // placement happened before
	}
	if err := view.Memory().Persist(view.Offset(), int(g.n)); err != nil {
		if !errors.Is(err, region.ErrNotPersistent) {
			region.RevokeMemory(view.Memory())
		}
		return it.req.refuse(vioFlush, err)
	}
	return nil
}

// executeVerify compares or returns the hash of the target. A returned hash, and a comparison over
// few octets, tell as much as a Read, so they need that right too. A failed comparison ends the
// stream.
func executeVerify(it *item, t *region.Table) error {
	var g target
	g.parse(it.req.body[:])
	view, err := t.Lookup(g.stag, g.to, g.n, region.Verify)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	want := it.req.body[targetLen:it.req.n]
	blind := view.Access()&region.RemoteRead == 0
	if blind && (len(want) == 0 || g.n < minCompare || !view.MayGuess(t)) {
		return it.req.refuse(vioAccess, region.ErrAccess)
	}
	if size := view.Hash().Size; len(want) != 0 && len(want) != size || size > maxHash {
		return it.req.refuse(vioHashLength, wantGot(size, len(want)))
	}
	var room [maxHash]byte
	sum, err := view.AppendSum(room[:0])
	if err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	if len(want) != 0 && subtle.ConstantTimeCompare(sum, want) == 0 {
		if blind {
			view.Guessed(t)
		}
		return it.req.refuse(vioMismatch, nil)
	}
	copy(it.respond(verbs.OpVerifyResponse, len(sum)), sum)
	return nil
}

// executeAtomicWrite stores 8 octets in one step. Choice: they are octets, not a number in host
// byte order, and need only the right to write.
func executeAtomicWrite(it *item, t *region.Table) error {
	var g target
	g.parse(it.req.body[:])
	if g.n != 8 {
		return it.req.refuse(vioWordLength, wantGot(8, g.n))
	}
	view, err := t.Lookup(g.stag, g.to, g.n, region.RemoteWrite)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	if err := view.StoreWord([8]byte(it.req.body[targetLen:])); err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	view.Stored()
	it.respond(verbs.OpAtomicWriteResponse, 0)
	return nil
}
