package buf

import (
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Sizes of the memory that input is read into, octets. Big has room for any FPDU, of which the
// largest has 65,544 octets, and for as many as one read should bring: what it has brought is read twice
// more, for the CRC and to be placed, and with 512 KiB it has left the near caches by then (READ and WRITE of
// 64 KiB, 8 in flight: 2 to 3 % fewer a second; of 1 MiB the same). The others keep the unfinished FPDU of a
// connection that waits for the rest of it, so that a peer that stops there makes us hold little more than it
// has sent.
const (
	Big   = 256 << 10
	Small = 4 << 10
)

var stagingSizes = [...]int{Small, 16 << 10, 66 << 10, Big}

// Staging holds input that has to be parsed, b[r:w]. It is borrowed while there is any: a connection
// that is idle between FPDUs holds none.
type Staging struct {
	R, W int
	Msg  verbs.Message // of the upcall that is running
	B    []byte
	left atomic.Int32 // how many of the two parties of a takeover no longer use it
}

var stagingPools [len(stagingSizes)]sync.Pool

// NewStaging returns a staging of at least n octets. One of more than Big, which only input
// that was read into its place and does not belong there can need, is made for one use.
func NewStaging(n int) *Staging {
	lend(1)
	for class, size := range stagingSizes {
		if n > size {
			continue
		}
		st, ok := stagingPools[class].Get().(*Staging)
		if !ok {
			st = &Staging{B: make([]byte, size)}
		}
		st.R, st.W = 0, 0
		return st
	}
	return &Staging{B: make([]byte, n)}
}

// Release ends the borrowing; pending octets are lost.
func (st *Staging) Release() {
	lend(-1)
	Poison(st.B[:st.W])
	st.Msg = verbs.Message{}
	for class, n := range stagingSizes {
		if n == len(st.B) {
			stagingPools[class].Put(st)
		}
	}
}

// Pending returns the octets not yet parsed.
func (st *Staging) Pending() []byte { return st.B[st.R:st.W] }

// Room returns space to read into, in a staging that can hold need octets beginning with the first
// pending one. It may move everything to a larger staging, which it returns.
//
// Pending octets move to the front, half a long FPDU on average. That copy costs less than to leave
// them there and make one more read for the rest of that FPDU alone.
func (st *Staging) Room(need int) (*Staging, []byte) {
	if need > len(st.B) {
		st = st.Move(need)
	} else if st.R > 0 {
		st.R, st.W = 0, copy(st.B, st.Pending())
	}
	return st, st.B[st.W:]
}

// Move moves the pending octets to a staging of at least n octets and gives st back.
func (st *Staging) Move(n int) *Staging {
	to := NewStaging(n)
	to.W = copy(to.B, st.Pending())
	st.Release()
	return to
}

// Park moves the pending octets to the smallest staging that has room for them and for room more
// octets.
func (st *Staging) Park(room int) *Staging {
	n := st.W - st.R + room
	for _, size := range stagingSizes {
		if size >= len(st.B) {
			break
		}
		if n <= size {
			return st.Move(size)
		}
	}
	return st
}

// Split copies the pending octets to another staging, nil if there are none, and leaves st to the
// upcall that has lost the role, whose message lies there.
func (st *Staging) Split() (to *Staging) {
	if st.R < st.W {
		to = NewStaging(st.W - st.R)
		to.W = copy(to.B, st.Pending())
	}
	st.Leave()
	return to
}

// Leave is called by both parties of a takeover, the upcall and whoever took over. The second one
// gives st back.
func (st *Staging) Leave() {
	if st.left.Add(1) == 2 {
		st.left.Store(0)
		st.Release()
	}
}
