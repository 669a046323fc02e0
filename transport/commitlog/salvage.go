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

// ErrTailPossible: Mend can see nothing wrong with the tail word.
var ErrTailPossible = errors.New("commitlog: the tail word is possible: there is nothing to mend")

// TailError reports whether err is about an impossible tail word. Open has found nothing else wrong with
// such a log: Salvage reads it, and Mend replaces its tail word.
func TailError(err error) bool {
	e, ok := errors.AsType[*FormatError](err)
	return ok && e.Off == layout.TailOff
}

// Salvage is Inspect without the tail word: visit gets the records that follow one another from the head,
// and Info.Tail is the end of the last one. Nobody can tell whether others after it were acknowledged,
// unless Info.Poison says so: then the header shows that there were more. Errors are those of Inspect.
func Salvage(r io.ReaderAt, size int64, visit func(*Record) error) (*Info, error) {
	st, err := machine.Salvage(readerAt{r}, int(size), visit)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, nil
}

// Mend makes Info.Tail of Salvage the durable tail word of a log that nobody has open, and returns
// that Info. Open then finds the log as if nothing after that had been acknowledged. People must
// decide to do this, never programs: nothing will say which records are lost. Errors: those of
// Inspect and of the memory, ErrTailPossible, and *PoisonError if records are known to be missing;
// then the log is unchanged.
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
