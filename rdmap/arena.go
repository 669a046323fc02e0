package rdmap

import "sync"

// chunkSize is the unit of staging for output, octets. Payloads of up to CopyLimit octets are framed
// in chunks, and so are the headers and trailers of longer ones.
const chunkSize = 64 << 10

// chunk is pooled staging memory. refs counts the frames in it that have not been
// written, plus one while the arena still hands out room in it.
type chunk struct {
	n    int
	refs int
	b    [chunkSize]byte
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

func newChunk() *chunk {
	k := chunkPool.Get().(*chunk)
	lend(1)
	k.n, k.refs = 0, 1
	return k
}

func (k *chunk) release() {
	k.refs--
	if k.refs == 0 {
		lend(-1)
		poison(k.b[:k.n])
		chunkPool.Put(k)
	}
}

// arena hands out room in chunks. It holds no memory once every frame has been written and drop was
// called. The zero value is ready.
type arena struct{ cur *chunk }

// room is a piece of a chunk, or memory of its own if k is nil.
type room struct {
	b   []byte
	k   *chunk
	off int // of b in k
}

// reserve returns n octets. The caller releases their chunk when they have been written. More than
// chunkSize octets get memory of their own.
func (a *arena) reserve(n int) room {
	if n > chunkSize {
		return room{b: make([]byte, n)}
	}
	if a.cur != nil && a.cur.n+n > chunkSize {
		a.drop()
	}
	if a.cur == nil {
		a.cur = newChunk()
	}
	k := a.cur
	k.refs++
	k.n += n
	return room{k.b[k.n-n : k.n : k.n], k, k.n - n}
}

// extend makes r longer by n octets, if it was the last to be reserved and its chunk has room.
func (a *arena) extend(r *room, n int) bool {
	k := r.k
	if k == nil || k != a.cur || r.off+len(r.b) != k.n || k.n+n > chunkSize {
		return false
	}
	k.n += n
	r.b = k.b[r.off:k.n:k.n]
	return true
}

// drop makes the arena stop handing out room in the present chunk.
func (a *arena) drop() {
	if a.cur != nil {
		a.cur.release()
		a.cur = nil
	}
}
