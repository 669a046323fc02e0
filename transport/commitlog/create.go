package commitlog

import (
	"bytes"
	"crypto/rand"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/layout"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
	"github.com/stag-rdma/stag/transport/commitlog/internal/window"
)

// Options of a new log. Nil and zero fields mean the defaults.
type Options struct {
	// Mode: WAL (default) or Strict.
	Mode Mode
	// Hash of Verify: CRC32C (default) or SHA256.
	Hash Hash
}

// Create makes a log of all of mem, whose size MemorySize tells. What mem holds is
// overwritten with zeros, durably, before there is a log. Until Create has returned nil
// Open may find none. Errors: *FormatError, and those of the memory.
func Create(mem region.Memory, o *Options) error {
	m, err := window.New(mem)
	if err != nil {
		return err
	}
	h := layout.Header{Mode: WAL, Hash: CRC32C}
	if o != nil && o.Mode != 0 {
		h.Mode = o.Mode
	}
	if o != nil && o.Hash != 0 {
		h.Hash = o.Hash
	}
	h.Capacity = uint64(max(m.Size()-layout.RingOff, 0))
	_, _ = rand.Read(h.ID[:]) // never fails, by its documentation
	_, _ = rand.Read(h.Key[:])
	ops, err := machine.Create(h)
	if err != nil {
		return err
	}
	if err := zero(m); err != nil {
		return err
	}
	return do(m, ops)
}

// zero overwrites what is not zero, the magics first: from then on there is no log.
func zero(m *window.Memory) error {
	const chunk = 1 << 20
	zeros, b := make([]byte, chunk), make([]byte, chunk)
	for off := 0; off < m.Size(); {
		n := min(chunk, m.Size()-off)
		if off < 2*layout.BlockSize {
			n = layout.BlockSize
		}
		if err := m.Load(b[:n], off); err != nil {
			return err
		}
		if !bytes.Equal(b[:n], zeros[:n]) {
			if err := m.Store(off, zeros[:n]); err != nil {
				return err
			}
			if err := m.Persist(region.Range{Off: off, N: n}); err != nil {
				return err
			}
		}
		off += n
	}
	return nil
}

// do executes stores and flushes.
func do(m *window.Memory, ops []machine.Op) error {
	for i := range ops {
		if err := m.Do(&ops[i]); err != nil {
			return err
		}
	}
	return nil
}
