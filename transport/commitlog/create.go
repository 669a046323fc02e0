package commitlog

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/region"
)

// MemorySize returns how many octets of memory a log with a ring of capacity octets needs. capacity must
// be a multiple of 64, and at least 256. The error is a *FormatError.
func MemorySize(capacity uint64) (int, error) {
	if err := checkCapacity(capacity); err != nil {
		return 0, err
	}
	return ringOff + int(capacity), nil
}

// Options has the settings of a new log. Nil and zero fields mean the defaults.
type Options struct {
	// Mode: WAL (default) or Strict.
	Mode Mode
	// Owner is kept in the log and not looked at: the digest of a secret, for example.
	Owner [32]byte
}

// Check returns an error that names the first setting that is out of range, as Create does. It wraps
// rpc.ErrConfig. A nil o is valid.
func (o *Options) Check() error {
	if o == nil {
		return nil
	}
	if err := setting.Check(setting.Int("Mode", int(o.Mode), int(Strict), int(WAL))); err != nil {
		return fmt.Errorf("commitlog: %w", err)
	}
	return nil
}

// Create makes a log in all of mem; MemorySize returns the size that mem must have. Before the
// log exists, Create overwrites mem with zeros, durably. If there was a log before and Create is
// interrupted by a crash, Open finds the whole old log, or no log (ErrMagic), or the new one.
// Once Create has returned nil, Open finds the new one. Errors: *FormatError, those of the memory, and
// for o one that wraps rpc.ErrConfig.
func Create(mem region.Memory, o *Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	m, err := newMemory(mem)
	if err != nil {
		return err
	}
	h := header{Mode: WAL}
	if o != nil && o.Mode != 0 {
		h.Mode = o.Mode
	}
	if o != nil {
		h.Owner = o.Owner
	}
	h.Capacity = uint64(max(m.Size()-ringOff, 0))
	_, _ = rand.Read(h.ID[:]) // never fails, by its documentation
	_, _ = rand.Read(h.Key[:])
	steps, err := creation(h)
	if err != nil {
		return err
	}
	if err := forget(m); err != nil {
		return err
	}
	if err := zero(m); err != nil {
		return err
	}
	return m.do(steps)
}

// forget destroys an existing log. The magic of the current header goes last, so that until then
// the whole log is there, and not the one of an earlier session.
func forget(m *memory) error {
	offs, err := headers(m)
	if err != nil {
		return err
	}
	for _, off := range offs {
		if err := m.Store(off, make([]byte, 8)); err != nil {
			return err
		}
		if err := m.Persist(region.Range{Off: off, N: 8}); err != nil {
			return err
		}
	}
	return nil
}

// headers returns where the two headers are, the current one last. One of another version always
// counts as current, because Open refuses the log because of it.
func headers(m *memory) ([]int, error) {
	offs := []int{headerOff, headerOff + blockSize}
	var counts [2]uint64
	for i, off := range offs {
		var b [headerLen]byte
		if err := m.Load(b[:], off); err != nil {
			return nil, err
		}
		var h header
		switch err := h.Parse(b[:], off); {
		case errors.Is(err, ErrVersion):
			counts[i] = math.MaxUint64
		case err == nil:
			counts[i] = h.Generation + 1
		}
	}
	if counts[0] > counts[1] {
		slices.Reverse(offs)
	}
	return offs, nil
}

// zero overwrites octets that are not zero. It flushes the control blocks even if they are zero,
// because the medium may hold something else, and a new log consists only of these.
func zero(m *memory) error {
	const chunk = 1 << 20
	zeros, b := make([]byte, chunk), make([]byte, chunk)
	for off := 0; off < m.Size(); {
		n := min(chunk, m.Size()-off)
		if off < ringOff {
			n = ringOff - off
		}
		if err := m.Load(b[:n], off); err != nil {
			return err
		}
		if off < ringOff || !bytes.Equal(b[:n], zeros[:n]) {
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
