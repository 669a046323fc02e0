package commitlog

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/layout"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
	"github.com/stag-rdma/stag/transport/commitlog/internal/window"
)

// ErrTailPossible: nothing is wrong with the tail word that Mend could see.
var ErrTailPossible = errors.New("commitlog: the tail word is possible: there is nothing to mend")

// TailError reports whether err is a tail word that cannot be true. Nothing else is wrong with such
// a log that Open could see: Salvage reads it, and Mend gives it another tail word.
func TailError(err error) bool {
	e, ok := errors.AsType[*FormatError](err)
	return ok && e.Off == layout.TailOff
}

// Salvage is Inspect without the tail word: visit gets the records that follow one another from the
// head on, and Info.Tail is the end of the last of them. Whether others were acknowledged behind
// that, nobody can tell, unless Info.Poison says so: then the header knows of more. Errors are those
// of Inspect.
func Salvage(r io.ReaderAt, size int64, visit func(*Record) error) (*Info, error) {
	st, err := machine.Salvage(readerAt{r}, int(size), visit)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, nil
}

// Mend makes Info.Tail of Salvage the tail word of a log that nobody has open, durably, and returns
// that Info. Open then finds the log as if nothing had been acknowledged behind. That is for people
// to decide, never for programs: records that are lost by it are lost without another word. Errors:
// those of Inspect and of the memory, ErrTailPossible, and *PoisonError when records are known to be
// missing; the log is then as it was.
func Mend(mem region.Memory) (*Info, error) {
	m, err := window.New(mem)
	if err != nil {
		return nil, err
	}
	if _, err := machine.Recover(m, m.Size(), nil); !TailError(err) {
		if err == nil {
			err = ErrTailPossible
		}
		return nil, err
	}
	st, err := machine.Salvage(m, m.Size(), nil)
	switch {
	case err != nil:
		return nil, err
	case st.Poison != nil:
		return nil, st.Poison
	}
	info := infoOf(st)
	if err := m.Store(layout.TailOff, binary.BigEndian.AppendUint64(nil, st.Tail)); err != nil {
		return nil, err
	}
	return &info, m.Persist(region.Range{Off: layout.TailOff, N: 8})
}
