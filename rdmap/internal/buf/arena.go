package buf

import "sync"

// ChunkSize is the unit of staging for output, octets. Payloads of up to CopyLimit octets are framed
// in chunks, and so are the headers and trailers of longer ones.
const ChunkSize = 64 << 10

// Chunk is pooled staging memory. refs counts the frames in it that have not been
// written, plus one while the arena still hands out room in it.
type Chunk struct {
	n    int
	refs int
	b    [ChunkSize]byte
}

var chunkPool = sync.Pool{New: func() any { return new(Chunk) }}

// NewChunk borrows a chunk.
func NewChunk() *Chunk {
	k := chunkPool.Get().(*Chunk)
	lend(1)
	k.n, k.refs = 0, 1
	return k
}

// Release gives k back once nobody refers to it.
func (k *Chunk) Release() {
	k.refs--
	if k.refs == 0 {
		lend(-1)
		Poison(k.b[:k.n])
		chunkPool.Put(k)
	}
}

// Arena hands out room in chunks. It holds no memory once every frame has been written and drop was
// called. The zero value is ready.
type Arena struct{ cur *Chunk }

// Room is a piece of a chunk, or memory of its own if k is nil.
type Room struct {
	B   []byte
	k   *Chunk
	off int // of b in k
}

// Reserve returns n octets. The caller releases their chunk when they have been written. More than
// ChunkSize octets get memory of their own.
func (a *Arena) Reserve(n int) Room {
	if n > ChunkSize {
		return Room{B: make([]byte, n)}
	}
	if a.cur != nil && a.cur.n+n > ChunkSize {
		a.Drop()
	}
	if a.cur == nil {
		a.cur = NewChunk()
	}
	k := a.cur
	k.refs++
	k.n += n
	return Room{k.b[k.n-n : k.n : k.n], k, k.n - n}
}

// Extend makes r longer by n octets, if it was the last to be reserved and its chunk has room.
func (a *Arena) Extend(r *Room, n int) bool {
	k := r.k
	if k == nil || k != a.cur || r.off+len(r.B) != k.n || k.n+n > ChunkSize {
		return false
	}
	k.n += n
	r.B = k.b[r.off:k.n:k.n]
	return true
}

// Drop makes the arena stop handing out room in the present chunk.
func (a *Arena) Drop() {
	if a.cur != nil {
		a.cur.Release()
		a.cur = nil
	}
}

// part returns r.b[from:to].
func (r Room) Part(from, to int) Room { return Room{r.B[from:to], r.k, r.off + from} }

// Release gives back the chunk of r, if it has one.
func (r Room) Release() {
	if r.k != nil {
		r.k.Release()
	}
}
