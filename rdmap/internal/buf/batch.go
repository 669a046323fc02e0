package buf

import "sync/atomic"

// Limits of one batch, that is, of one write.
const (
	BatchOctets = 512 << 10 // octets
	BatchPieces = 256       // pieces; the kernel takes 1024
)

// Batch gathers the octets of one write: staged octets and borrowed payloads, in order. Neighbours in
// one chunk become one piece, as the trailer of an FPDU and the header of the next one do. The zero
// value is ready.
type Batch struct {
	vec    [][]byte
	left   [][]byte // the part of vec not yet written
	n      int      // octets in vec, or in left once begin was called
	more   bool     // another batch follows at once
	chunks []*Chunk // own memory, released by reset; the last one is being filled
	// If tail is not nil, the last piece of vec is tail.b[start:end].
	tail       *Chunk
	start, end int
	aligned    bool          // every write ends a segment of TCP
	written    atomic.Uint64 // octets, of all batches
	cuts       []int         // how many pieces lie before each cut
}

// EndSegments makes every write end a segment of TCP.
func (b *Batch) EndSegments() { b.aligned = true }

// EndsSegments reports whether the next write ends a segment of TCP.
func (b *Batch) EndsSegments() bool { return b.aligned }

// Follows reports whether another batch follows at once.
func (b *Batch) Follows() bool { return b.more }

// Size returns the octets in the batch that are not written.
func (b *Batch) Size() int { return b.n }

// Pieces returns what is in the batch, before begin.
func (b *Batch) Pieces() [][]byte { return b.vec }

// Unwritten returns the pieces that are left after begin.
func (b *Batch) Unwritten() [][]byte { return b.left }

// Forget drops the pieces, but keeps the memory in which they lie until reset.
func (b *Batch) Forget() {
	clear(b.vec)
	b.vec, b.n, b.tail = b.vec[:0], 0, nil
}

// Full reports whether the batch should be written before more is added.
func (b *Batch) Full() bool { return b.n >= BatchOctets || len(b.vec) >= BatchPieces }

// Ref adds p, which is borrowed until the batch has been written.
func (b *Batch) Ref(p []byte) {
	if len(p) == 0 {
		return
	}
	b.vec = append(b.vec, p)
	b.n += len(p)
	b.tail = nil
}

// Add adds r, which is borrowed until the batch has been written.
func (b *Batch) Add(r Room) {
	if r.k == nil || len(r.B) == 0 {
		b.Ref(r.B)
		return
	}
	b.n += len(r.B)
	if b.tail == r.k && b.end == r.off {
		b.end += len(r.B)
		b.vec[len(b.vec)-1] = r.k.b[b.start:b.end]
		return
	}
	b.vec = append(b.vec, r.B)
	b.tail, b.start, b.end = r.k, r.off, r.off+len(r.B)
}

// Stage adds n ≤ ChunkSize octets of the batch's own memory, and returns them to be filled.
func (b *Batch) Stage(n int) []byte {
	r := b.Room(n)
	b.Add(r)
	return r.B
}

// Room is stage without the adding, for octets that may turn out to be unavailable.
func (b *Batch) Room(n int) Room {
	k := b.filling()
	if k == nil || k.n+n > ChunkSize {
		k = NewChunk()
		b.chunks = append(b.chunks, k)
	}
	r := Room{k.b[k.n : k.n+n : k.n+n], k, k.n}
	k.n += n
	return r
}

// Free returns how many octets room can take without going beyond the present chunk.
func (b *Batch) Free() int {
	if k := b.filling(); k != nil {
		return ChunkSize - k.n
	}
	return ChunkSize
}

// CopyIn adds a copy of p.
func (b *Batch) CopyIn(p []byte) {
	for len(p) > 0 {
		n := ChunkSize
		if k := b.filling(); k != nil && k.n < ChunkSize {
			n -= k.n
		}
		p = p[copy(b.Stage(min(n, len(p))), p):]
	}
}

func (b *Batch) filling() *Chunk {
	if len(b.chunks) == 0 {
		return nil
	}
	return b.chunks[len(b.chunks)-1]
}

// Begin makes everything in the batch due to be written. more means that another batch follows at
// once, so that TCP need not send the end of this one in a segment of its own.
func (b *Batch) Begin(more bool) { b.left, b.tail, b.more = b.vec, nil, more && !b.aligned }

// Advance drops the first n octets of what is left: they have been written.
func (b *Batch) Advance(n int) {
	b.written.Add(uint64(n))
	b.n -= n
	for len(b.left) > 0 && n >= len(b.left[0]) {
		n -= len(b.left[0])
		b.left = b.left[1:]
	}
	if n > 0 {
		b.left[0] = b.left[0][n:]
	}
}

// Written returns how many octets Advance has dropped, ever. It may be called by any goroutine.
func (b *Batch) Written() uint64 { return b.written.Load() }

// Gather copies what is left to the front of k, as much as fits, and returns the copy.
func (b *Batch) Gather(k *Chunk) []byte {
	buf := k.b[:0]
	for _, p := range b.left {
		buf = append(buf, p[:min(len(p), cap(buf)-len(buf))]...)
		if len(buf) == cap(buf) {
			break
		}
	}
	k.n = max(k.n, len(buf))
	return buf
}

// Reset empties the batch and gives its memory back.
func (b *Batch) Reset() {
	for i, k := range b.chunks {
		k.Release()
		b.chunks[i] = nil
	}
	clear(b.vec)
	b.vec, b.left, b.chunks, b.n, b.tail = b.vec[:0], nil, b.chunks[:0], 0, nil
	b.cuts = b.cuts[:0]
}

// Cut makes what is added next begin a segment.
func (b *Batch) Cut() {
	b.tail = nil
	b.cuts = append(b.cuts, len(b.vec))
}

// Next returns the pieces of the next write: those up to a cut, or all that is left.
func (b *Batch) Next() [][]byte {
	done := len(b.vec) - len(b.left)
	for _, n := range b.cuts {
		if n > done {
			return b.left[:n-done]
		}
	}
	return b.left
}
