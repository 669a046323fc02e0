package commitlog

import (
	"bytes"
	"errors"
	"io"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Info is what recovery found in a log.
type Info struct {
	ID         [16]byte
	Mode       Mode
	Capacity   uint64 // octets of the ring
	Generation uint64 // of the header
	Epoch      uint32 // of the last session, 0 if there was none

	Head     uint64 // position of the oldest record that is kept
	HeadSeq  uint64 // number of that record
	TailWord uint64 // the tail word in the memory
	Tail     uint64 // position after the last record; in WAL mode it may be after TailWord
	NextSeq  uint64 // number of the next append; meaningless if there is a Poison

	Poison *PoisonError // the first record that fails its check; nil: none

	// The header and the head slot that fail their check, while the other of the two counts; nil: none. They are
	// damaged, or a crash has interrupted their writing on a medium that does not write 512 octets at once. A
	// session may have been forgotten with the header, so Instance is zero until the next one, which writes over it.
	// With the head slot, records may come again that were released; the next Release writes over it.
	BadHeader, BadHead *FormatError
}

func infoOf(st *state) Info {
	h := &st.Header
	return Info{
		ID: h.ID, Mode: h.Mode, Capacity: h.Capacity, Generation: h.Generation, Epoch: h.Epoch,
		Head: st.Head.Pos, HeadSeq: st.Head.Seq, TailWord: st.Durable, Tail: st.Tail, NextSeq: st.NextSeq, Poison: st.Poison,
		BadHeader: st.BadHeader, BadHead: st.BadHead,
	}
}

// Inspect reads a log of size octets that nobody is changing, such as a file. It changes nothing.
// If visit is not nil, Inspect calls it, in order, with every record that Open would return; an
// error of visit ends Inspect, which returns it. Other errors: *FormatError, and those of r. A
// poisoned record is not an error; Info reports it.
func Inspect(r io.ReaderAt, size int64, visit func(*Record) error) (*Info, error) {
	st, err := recoverLog(readerAt{r}, int(size), visit)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, nil
}

// Unused reports whether it is sure that nobody has ever appended to the memory of a log, of size octets: its
// tail and its ring are as Create makes them, even if Create did not finish. It is false if r fails.
func Unused(r io.ReaderAt, size int64) bool {
	b := make([]byte, blockSize)
	for off := int64(0); off < size; off += int64(len(b)) {
		if off < tailOff && size >= ringOff || off >= headOff && off < ringOff {
			continue // not by producers
		}
		n, err := r.ReadAt(b[:min(int64(len(b)), size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b[:n], make([]byte, n)) {
			return false
		}
	}
	return true
}

type readerAt struct{ r io.ReaderAt }

func (s readerAt) Load(p []byte, off int) error {
	_, err := s.r.ReadAt(p, int64(off))
	return err
}

// ErrHealthy: Mend can see nothing wrong with the log.
var ErrHealthy = errors.New("commitlog: the log has no damaged record and a possible tail word: there is nothing to mend")

// TailError reports whether err is about an impossible tail word. Open has found nothing else wrong with
// such a log: Salvage reads it, and Mend replaces its tail word.
func TailError(err error) bool {
	e, ok := errors.AsType[*FormatError](err)
	return ok && e.Off == tailOff
}

// Salvage reads what is whole in a damaged log of size octets that nobody is changing: visit gets the records that
// follow one another from the head, and then, with behind, those after the damage. Info.Tail is the end of the
// former. Info.Poison says which record is missing there; if it is nil, nobody can tell whether there ever were
// more. The last of those behind may never have been acknowledged. Errors are those of Inspect.
func Salvage(r io.ReaderAt, size int64, visit func(r *Record, behind bool) error) (*Info, error) {
	if visit == nil {
		visit = func(*Record, bool) error { return nil }
	}
	st, err := salvageLog(readerAt{r}, int(size), visit)
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
	switch st, err := recoverLog(m, m.Size(), nil); {
	case err == nil && st.Poison == nil:
		return nil, ErrHealthy
	case err != nil && !TailError(err):
		return nil, err
	}
	st, err := salvageLog(m, m.Size(), func(*Record, bool) error { return nil })
	if err != nil {
		return nil, err
	}
	steps, err := mending(st)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, m.do(steps)
}
