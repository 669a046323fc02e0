package pmem

import (
	"io"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
)

// medium is what differs between the kinds. persist is called by one goroutine at a time, unless
// quick returns true: then it makes no system call that could hang, no failure can be reported to the
// wrong caller, and any goroutine may call it.
type medium interface {
	bytes() []byte
	persist(rs []region.Range) error
	readBack(w io.Writer, off, n int) error
	quick() bool
	release() error
}

// shadow is the medium of File: peers reach a copy of the file. So the kernel writes only what
// Persist names, and no truncation can make an access to the copy fault.
//
// If the file accepts writes past the page cache, they are of whole blocks. Choice: the blocks come
// from a second copy, which holds what the file holds. So the file still gets only what Persist
// names, and nobody changes octets that the disk is reading. Otherwise the page cache is that second
// copy.
type shadow struct {
	d    *device
	data []byte
	file []byte // what the file holds, aligned to blocks; nil without direct writes
}

func openFile(d *device) (medium, error) {
	// With at least the capacity of a line, even a small memory is aligned for atomics.
	s := &shadow{d: d, data: make([]byte, d.size, max(d.size, 64))}
	if _, err := io.ReadFull(io.NewSectionReader(d.f, 0, int64(d.size)), s.data); err != nil {
		return nil, d.error("pread", ErrOpen, cause(err))
	}
	if d.direct() {
		s.file = blocks(d.size)
		copy(s.file, s.data)
		_ = dropCache(d.f) // it would only take time to keep it right
	}
	return s, nil
}

// blocks returns n octets that begin at a multiple of block.
func blocks(n int) []byte {
	b := make([]byte, n+block)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % block)
	return b[at : at+n : at+n]
}

func (s *shadow) bytes() []byte  { return s.data }
func (s *shadow) quick() bool    { return false }
func (s *shadow) release() error { return nil }

func (s *shadow) readBack(w io.Writer, off, n int) error { return s.d.readBack(w, off, n) }

// persist writes rs. If its last range ends with the file, it checks the size before writing too: a
// pwrite there would make a truncated file as long as it was, with a hole in it. Any other pwrite
// leaves a truncated file too short, which the check at the end finds.
func (s *shadow) persist(rs []region.Range) error {
	rs = s.take(cover(rs, 1, s.d.size))
	if k := len(rs); k > 0 && rs[k-1].Off+rs[k-1].N == s.d.size {
		if err := s.d.check(); err != nil {
			return err
		}
	}
	if err := s.write(rs); err != nil {
		return err
	}
	return s.d.check()
}

// take copies rs to the second copy, if there is one, and returns the ranges of the file to write.
func (s *shadow) take(rs []region.Range) []region.Range {
	if s.file == nil {
		return rs
	}
	for _, r := range rs {
		region.CopyUnseen(s.file[r.Off:r.Off+r.N], s.data[r.Off:r.Off+r.N])
	}
	return cover(rs, block, s.d.size)
}

// write returns when rs are on the medium.
func (s *shadow) write(rs []region.Range) error {
	if len(rs) == 1 {
		return s.d.writeSync(s.octets(rs[0]), rs[0].Off)
	}
	for _, r := range rs {
		if err := s.d.write(s.octets(r), r.Off); err != nil {
			return err
		}
	}
	if len(rs) == 0 {
		return nil
	}
	return s.d.datasync()
}

func (s *shadow) octets(r region.Range) []byte {
	if s.file != nil {
		return s.file[r.Off : r.Off+r.N]
	}
	b := s.data[r.Off : r.Off+r.N]
	if region.RaceDetector { // the system call reports its accesses
		b = make([]byte, r.N)
		region.CopyUnseen(b, s.data[r.Off:r.Off+r.N])
	}
	return b
}
