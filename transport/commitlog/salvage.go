package commitlog

import (
	"errors"
	"io"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// ErrHealthy: Mend can see nothing wrong with the log.
var ErrHealthy = errors.New("commitlog: the log has no damaged record and a possible tail word: there is nothing to mend")

// TailError reports whether err is about an impossible tail word. Open has found nothing else wrong with
// such a log: Salvage reads it, and Mend replaces its tail word.
func TailError(err error) bool {
	e, ok := errors.AsType[*FormatError](err)
	return ok && e.Off == machine.TailOff
}

// Salvage reads what is whole in a damaged log of size octets that nobody is changing: visit gets the records that
// follow one another from the head, and then, with behind, those after the damage. Info.Tail is the end of the
// former. Info.Poison says which record is missing there; if it is nil, nobody can tell whether there ever were
// more. The last of those behind may never have been acknowledged. Errors are those of Inspect.
func Salvage(r io.ReaderAt, size int64, visit func(r *Record, behind bool) error) (*Info, error) {
	if visit == nil {
		visit = func(*Record, bool) error { return nil }
	}
	st, err := machine.Salvage(readerAt{r}, int(size), visit)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, nil
}

// Mend cuts off a log that is damaged, and that nobody has open, at Info.Tail of Salvage, durably, and returns that
// Info. Open then finds the log as if nothing after that had been acknowledged. A new epoch begins, so that
// producers that know more are refused. People must decide to do this, never programs: the records behind are
// lost. Errors: those of Inspect and of the memory, ErrHealthy, ErrEpochs.
func Mend(mem region.Memory) (*Info, error) {
	m, err := newMemory(mem)
	if err != nil {
		return nil, err
	}
	switch st, err := machine.Recover(m, m.Size(), nil); {
	case err == nil && st.Poison == nil:
		return nil, ErrHealthy
	case err != nil && !TailError(err):
		return nil, err
	}
	st, err := machine.Salvage(m, m.Size(), func(*Record, bool) error { return nil })
	if err != nil {
		return nil, err
	}
	ops, err := machine.Mend(st)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, do(m, ops)
}
