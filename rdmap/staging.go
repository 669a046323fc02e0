package rdmap

import (
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Sizes of the memory that input is read into, octets. bigStaging has room for any FPDU, of which the
// largest has 65,544 octets, and for as many as one read brings. The others keep the unfinished FPDU
// of a connection that waits for the rest of it, so that a peer that stops there makes us hold little
// more than it has sent.
const (
	bigStaging   = 512 << 10
	smallStaging = 4 << 10
)

var stagingSizes = [...]int{smallStaging, 16 << 10, 66 << 10, bigStaging}

// staging holds input that has to be parsed, b[r:w]. It is borrowed while there is any: a connection
// that is idle between FPDUs holds none.
type staging struct {
	r, w int
	msg  verbs.Message // of the upcall that is running
	b    []byte
	left atomic.Int32 // how many of the two parties of a takeover no longer use it
}

var stagingPools [len(stagingSizes)]sync.Pool

// borrowStaging returns a staging of at least n octets. One of more than bigStaging, which only input
// that was read into its place and does not belong there can need, is made for one use.
func borrowStaging(n int) *staging {
	lend(1)
	for class, size := range stagingSizes {
		if n > size {
			continue
		}
		st, ok := stagingPools[class].Get().(*staging)
		if !ok {
			st = &staging{b: make([]byte, size)}
		}
		st.r, st.w = 0, 0
		return st
	}
	return &staging{b: make([]byte, n)}
}

// giveBack ends the borrowing; pending octets are lost.
func (st *staging) giveBack() {
	lend(-1)
	poison(st.b[:st.w])
	st.msg = verbs.Message{}
	for class, n := range stagingSizes {
		if n == len(st.b) {
			stagingPools[class].Put(st)
		}
	}
}

// pending returns the octets not yet parsed.
func (st *staging) pending() []byte { return st.b[st.r:st.w] }

// room returns space to read into, in a staging that can hold need octets beginning with the first
// pending one. It may move everything to a larger staging, which it returns.
//
// Pending octets move to the front, half a long FPDU on average. That copy costs less than to leave
// them there and make one more read for the rest of that FPDU alone.
func (st *staging) room(need int) (*staging, []byte) {
	if need > len(st.b) {
		st = st.move(need)
	} else if st.r > 0 {
		st.r, st.w = 0, copy(st.b, st.pending())
	}
	return st, st.b[st.w:]
}

// move moves the pending octets to a staging of at least n octets and gives st back.
func (st *staging) move(n int) *staging {
	to := borrowStaging(n)
	to.w = copy(to.b, st.pending())
	st.giveBack()
	return to
}

// park moves the pending octets to the smallest staging that has room for them and for room more
// octets.
func (st *staging) park(room int) *staging {
	n := st.w - st.r + room
	for _, size := range stagingSizes {
		if size >= len(st.b) {
			break
		}
		if n <= size {
			return st.move(size)
		}
	}
	return st
}

// split copies the pending octets to another staging, nil if there are none, and leaves st to the
// upcall that has lost the role, whose message lies there.
func (st *staging) split() (to *staging) {
	if st.r < st.w {
		to = borrowStaging(st.w - st.r)
		to.w = copy(to.b, st.pending())
	}
	st.leave()
	return to
}

// leave is called by both parties of a takeover, the upcall and whoever took over. The second one
// gives st back.
func (st *staging) leave() {
	if st.left.Add(1) == 2 {
		st.left.Store(0)
		st.giveBack()
	}
}
