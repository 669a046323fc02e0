package rdmap

// Limits of one batch, that is, of one write.
const (
	maxBatch    = 512 << 10 // octets
	maxBatchVec = 256       // pieces; the kernel takes 1024
)

// batch gathers what goes out in one write: staged octets and borrowed payloads
// in order. Neighbours in one chunk become one piece, so the trailer of an FPDU and
// the header of the next are one. The zero value is ready.
type batch struct {
	vec    [][]byte
	left   [][]byte // the part of vec not yet written
	n      int      // octets in vec, or in left once begin was called
	more   bool     // another batch follows at once
	chunks []*chunk // own memory, released by reset; the last is being filled
	// The last piece of vec is tail.b[start:end], when tail is not nil.
	tail       *chunk
	start, end int
}

// full reports that the batch should be written before more is added.
func (b *batch) full() bool { return b.n >= maxBatch || len(b.vec) >= maxBatchVec }

// ref adds p, which is borrowed until the batch has been written.
func (b *batch) ref(p []byte) {
	if len(p) == 0 {
		return
	}
	b.vec = append(b.vec, p)
	b.n += len(p)
	b.tail = nil
}

// add adds r, which is borrowed until the batch has been written.
func (b *batch) add(r room) {
	if r.k == nil || len(r.b) == 0 {
		b.ref(r.b)
		return
	}
	b.n += len(r.b)
	if b.tail == r.k && b.end == r.off {
		b.end += len(r.b)
		b.vec[len(b.vec)-1] = r.k.b[b.start:b.end]
		return
	}
	b.vec = append(b.vec, r.b)
	b.tail, b.start, b.end = r.k, r.off, r.off+len(r.b)
}

// stage returns n ≤ chunkSize octets of the batch's own memory, added to it.
func (b *batch) stage(n int) []byte {
	r := b.room(n)
	b.add(r)
	return r.b
}

// room is stage for octets that may turn out not to be had: the caller adds them.
func (b *batch) room(n int) room {
	k := b.filling()
	if k == nil || k.n+n > chunkSize {
		k = newChunk()
		b.chunks = append(b.chunks, k)
	}
	r := room{k.b[k.n : k.n+n : k.n+n], k, k.n}
	k.n += n
	return r
}

// free returns how many octets room can take from the present chunk.
func (b *batch) free() int {
	if k := b.filling(); k != nil {
		return chunkSize - k.n
	}
	return chunkSize
}

// copyIn adds a copy of p.
func (b *batch) copyIn(p []byte) {
	for len(p) > 0 {
		n := chunkSize
		if k := b.filling(); k != nil && k.n < chunkSize {
			n -= k.n
		}
		p = p[copy(b.stage(min(n, len(p))), p):]
	}
}

func (b *batch) filling() *chunk {
	if len(b.chunks) == 0 {
		return nil
	}
	return b.chunks[len(b.chunks)-1]
}

// begin makes everything in the batch wait to be written. More says that another batch
// follows at once: the end of this one need not be a segment of TCP of its own.
func (b *batch) begin(more bool) { b.left, b.tail, b.more = b.vec, nil, more }

// advance drops the first n octets of what is left: they have been written.
func (b *batch) advance(n int) {
	b.n -= n
	for len(b.left) > 0 && n >= len(b.left[0]) {
		n -= len(b.left[0])
		b.left = b.left[1:]
	}
	if n > 0 {
		b.left[0] = b.left[0][n:]
	}
}

// gather copies what is left to buf, as far as its capacity goes.
func (b *batch) gather(buf []byte) []byte {
	for _, p := range b.left {
		buf = append(buf, p[:min(len(p), cap(buf)-len(buf))]...)
		if len(buf) == cap(buf) {
			break
		}
	}
	return buf
}

// reset empties the batch and gives its memory back.
func (b *batch) reset() {
	for i, k := range b.chunks {
		k.release()
		b.chunks[i] = nil
	}
	clear(b.vec)
	b.vec, b.left, b.chunks, b.n, b.tail = b.vec[:0], nil, b.chunks[:0], 0, nil
}
