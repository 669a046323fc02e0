package rdmap

import (
	"sync"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// markScratch is the memory needed to mark one batch. It is pooled, so an idle connection holds none.
type markScratch struct {
	arena []byte   // the markers
	out   [][]byte // markers and the pieces of FPDUs between them
}

var markPool = sync.Pool{New: func() any { return new(markScratch) }}

// mark puts markers into the batch, whose FPDUs were built without markers and with room for their
// CRCs, and copies everything into the batch's own memory.
//
// Choice: it copies. With a piece for every 508 octets, a net.Conn would need as many writes, and the
// kernel as many entries. A peer that asks for markers has asked for a slower stream.
func (w *work) mark(crc bool) {
	b := &w.b
	if b.Size() == 0 {
		return
	}
	s := markPool.Get().(*markScratch)
	if n := w.ins.InsertRoom(b.Size()); cap(s.arena) < n {
		s.arena = make([]byte, 0, n)
	}
	s.out, _ = w.ins.Insert(s.out[:0], s.arena[:0], b.Pieces(), crc)
	before := b.Size()
	b.Forget()
	for _, p := range s.out {
		b.CopyIn(p)
	}
	w.out.octets += uint64(b.Size() - before)
	clear(s.out)
	markPool.Put(s)
}

// startMarking makes every FPDU carry markers. It is called before the first FPDU of full operation.
func (w *work) startMarking() { w.ins = new(mpa.Inserter) }
