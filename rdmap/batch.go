package rdmap

// Limits of one batch, that is, of one write.
const (
	maxBatch    = 512 << 10 // octets
	maxBatchVec = 256       // pieces; the kernel takes 1024
)

// batch gathers the octets of one write: staged octets and borrowed payloads, in order. Neighbours in
// one chunk become one piece, as the trailer of an FPDU and the header of the next one do. The zero
// value is ready.
type batch struct {
	vec    [][]byte
	left   [][]byte // the part of vec not yet written
	n      int      // octets in vec, or in left once begin was called
	more   bool     // another batch follows at once
	chunks []*chunk // own memory, released by reset; the last one is being filled
	// If tail is not nil, the last piece of vec is tail.b[start:end].
	tail       *chunk
	start, end int
	align      alignment
}

// full reports whether the batch should be written before more is added.
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

// stage adds n ≤ chunkSize octets of the batch's own memory, and returns them to be filled.
func (b *batch) stage(n int) []byte {
	r := b.room(n)
	b.add(r)
	return r.b
}

// room is stage without the adding, for octets that may turn out to be unavailable.
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

// free returns how many octets room can take without going beyond the present chunk.
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

// begin makes everything in the batch due to be written. more means that another batch follows at
// once, so that TCP need not send the end of this one in a segment of its own.
func (b *batch) begin(more bool) { b.left, b.tail, b.more = b.vec, nil, more && b.align.emss == 0 }

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

// gather appends what is left to buf, up to the capacity of buf.
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
	b.align.reset()
}
