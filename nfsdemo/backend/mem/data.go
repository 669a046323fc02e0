package mem

import (
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// pageSize is the unit of allocation in octets.
const pageSize = 16 << 10

// take reserves k pages.
func (f *FS) take(k int) error {
	f.space.Lock()
	defer f.space.Unlock()
	if (f.pages+uint64(k))*pageSize > f.cfg.Capacity {
		return nfs3.ErrNoSpc
	}
	f.pages += uint64(k)
	return nil
}

// give returns k pages.
func (f *FS) give(k int) {
	f.space.Lock()
	defer f.space.Unlock()
	f.pages -= uint64(k)
}

// Read copies octets out.
func (n *file) Read(p []byte, off uint64) (int, error) {
	if n.attr.Type != nfs3.TypeReg {
		return 0, nfs3.ErrInval
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.mayRead(&n.attr) {
		return 0, nfs3.ErrAcces
	}
	if n.attr.Nlink == 0 {
		return 0, nfs3.ErrStale
	}
	if off >= n.attr.Size {
		return 0, nil
	}
	p = p[:min(uint64(len(p)), n.attr.Size-off)]
	for done := 0; done < len(p); {
		at := (off + uint64(done)) % pageSize
		part := p[done:min(len(p), done+int(pageSize-at))]
		if page := n.pages[(off+uint64(done))/pageSize]; page != nil {
			copy(part, page[at:])
		} else {
			clear(part) // a hole
		}
		done += len(part)
	}
	return len(p), nil
}

// Write copies octets in.
func (n *file) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	res := backend.WriteResult{Committed: nfs3.FileSync, Verf: n.fs.boot}
	if n.attr.Type != nfs3.TypeReg {
		return res, nfs3.ErrInval
	}
	end := off + uint64(len(p))
	if end < off || end > 1<<63-1 {
		return res, nfs3.ErrFBig
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attr.Nlink == 0 {
		return res, nfs3.ErrStale
	}
	if !n.mayWrite(&n.attr) {
		return res, nfs3.ErrAcces
	}
	if len(p) == 0 {
		return res, nil
	}
	if err := n.alloc(off, end); err != nil { // all pages first: a write that does not fit changes nothing
		return res, err
	}
	for done := 0; done < len(p); {
		at := (off + uint64(done)) % pageSize
		done += copy(n.pages[(off+uint64(done))/pageSize][at:], p[done:])
	}
	n.attr.Size = max(n.attr.Size, end)
	n.attr.Mtime = nfs3.TimeOf(time.Now())
	n.attr.Ctime = n.attr.Mtime
	n.verf = nil
	n.dropSetID()
	res.N = len(p)
	return res, nil
}

// room returns the error of a Write for which there are not enough pages now.
func (n *node) room(off uint64, size int) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	missing := n.missing(off/pageSize, (off+uint64(size)-1)/pageSize)
	err := n.fs.take(missing)
	if err == nil {
		n.fs.give(missing)
	}
	return err
}

// missing counts the pages that a file does not have yet. The caller holds n.mu.
func (n *node) missing(first, last uint64) (missing int) {
	for i := first; i <= last; i++ {
		if n.pages[i] == nil {
			missing++
		}
	}
	return missing
}

// alloc allocates all pages of [off, end), or none. The caller holds n.mu.
func (n *node) alloc(off, end uint64) error {
	first, last := off/pageSize, (end-1)/pageSize
	missing := n.missing(first, last)
	if err := n.fs.take(missing); err != nil {
		return err
	}
	if n.pages == nil {
		n.pages = make(map[uint64][]byte)
	}
	for i := first; i <= last; i++ {
		if n.pages[i] == nil {
			n.pages[i] = make([]byte, pageSize)
		}
	}
	n.attr.Used += uint64(missing) * pageSize
	return nil
}

// truncate sets the size. The caller holds n.mu.
func (n *node) truncate(size uint64) error {
	switch {
	case n.attr.Type == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case n.attr.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case size > 1<<63-1:
		return nfs3.ErrFBig
	}
	if size < n.attr.Size {
		n.cut(size)
	}
	n.attr.Size = size
	return nil
}

// cut drops the pages beyond size and clears the rest of the last one, so that a file reads as
// zeros there if it grows again. The caller holds n.mu.
func (n *node) cut(size uint64) {
	keep := (size + pageSize - 1) / pageSize
	freed := 0
	for i := range n.pages {
		if i >= keep {
			delete(n.pages, i)
			freed++
		}
	}
	if page := n.pages[size/pageSize]; page != nil {
		clear(page[size%pageSize:])
	}
	n.attr.Used -= uint64(freed) * pageSize
	n.fs.give(freed)
}

// Commit has nothing to do: every Write is stable.
func (n *file) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	if n.attr.Type != nfs3.TypeReg {
		return n.fs.boot, nfs3.ErrInval
	}
	a, err := n.Attr()
	if err == nil && !n.mayWrite(&a) && !n.mayRead(&a) {
		err = nfs3.ErrAcces
	}
	return n.fs.boot, err
}
