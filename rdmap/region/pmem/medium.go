package pmem

import (
	"io"

	"github.com/stag-rdma/stag/rdmap/region"
)

// medium is what differs between the kinds. persist is called by one goroutine at a
// time, except where quick says that it may be called by all of them, since it makes
// no system call that could hang and no failure can go to the wrong one.
type medium interface {
	bytes() []byte
	persist(rs []region.Range) error
	quick() bool
	release() error
}

// shadow is the medium of File: what peers reach is a copy. The kernel writes out only
// what Persist names, and no truncation can make touching the copy fault.
type shadow struct {
	d    *device
	data []byte
}

func openFile(d *device) (medium, error) {
	// The capacity of a line puts small memories at an address fit for atomics.
	data := make([]byte, d.size, max(d.size, 64))
	if _, err := io.ReadFull(io.NewSectionReader(d.f, 0, int64(d.size)), data); err != nil {
		return nil, d.error("pread", ErrOpen, cause(err))
	}
	return &shadow{d: d, data: data}, nil
}

func (s *shadow) bytes() []byte  { return s.data }
func (s *shadow) quick() bool    { return false }
func (s *shadow) release() error { return nil }

// persist looks at the size before, too, where its last range ends with the file: a
// pwrite to the end of a truncated file would make it as long as it was, with a hole
// where the other octets were. Any other leaves it too short, which check finds.
func (s *shadow) persist(rs []region.Range) error {
	rs = cover(rs, 1, s.d.size)
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

func (s *shadow) octets(r region.Range) []byte { return s.data[r.Off : r.Off+r.N] }
