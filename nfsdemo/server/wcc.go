package server

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// stripes are locks by file. Two files may share one.
type stripes struct {
	mu   [64]sync.Mutex
	once sync.Once
	seed maphash.Seed
}

// index returns the stripe of a handle.
func (s *stripes) index(h nfs3.FileHandle) int {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return int(maphash.Bytes(s.seed, h) % uint64(len(s.mu)))
}

// lock locks the stripes of up to two handles, always in the same order, and returns a function
// that unlocks them.
func (s *stripes) lock(a, b nfs3.FileHandle) (unlock func()) {
	i, j := s.index(a), -1
	if b != nil {
		j = s.index(b)
	}
	if j == i {
		j = -1
	}
	if j >= 0 && j < i {
		i, j = j, i
	}
	s.mu[i].Lock()
	if j < 0 {
		return s.mu[i].Unlock
	}
	s.mu[j].Lock()
	return func() {
		s.mu[j].Unlock()
		s.mu[i].Unlock()
	}
}

// changed fills in the wcc_data of a file that an op has changed, or has not, with its attributes of now as "after". Those of f are
// "before"; they are sent only if nobody else can have changed the file in between (RFC 1813 Section 2.6).
func (o *op) changed(f *file, w *nfs3.Wcc) {
	if f.node == nil {
		return
	}
	if a, err := f.node.Attr(); err == nil {
		w.After = nfs3.SomeAttr(&a)
		if o.exp.info.AtomicWcc {
			w.Before = nfs3.OptWcc{Present: true, Attr: f.attr.Wcc()}
		}
	}
}

// hold keeps other changes of up to two files away if that makes their "before" attributes exact.
// It must be called before the attributes are read.
func (o *op) hold(a, b nfs3.FileHandle) (release func()) {
	if len(a) <= handleHead {
		return func() {}
	}
	if e := o.s.export(a); e == nil || !e.info.AtomicWcc {
		return func() {}
	}
	return o.s.locks.lock(a, b)
}

// export returns the export of a handle, or nil.
func (s *Server) export(h nfs3.FileHandle) *export {
	if len(h) <= handleHead {
		return nil
	}
	return s.table.Load().byID[binary.BigEndian.Uint32(h)]
}
