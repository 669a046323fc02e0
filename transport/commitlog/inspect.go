package commitlog

import (
	"io"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// Info is what recovery has found in a log.
type Info struct {
	ID         [16]byte
	Mode       Mode
	Hash       Hash
	Capacity   uint64 // octets of the ring
	Generation uint64 // of the header
	Epoch      uint32 // of the last session, 0 if there was none

	Head     uint64 // position from which on records are kept
	HeadSeq  uint64 // number of the first of them
	TailWord uint64 // as it stood in the memory
	Tail     uint64 // position behind the last record; in wal mode perhaps behind TailWord
	NextSeq  uint64 // number of the next append; without meaning if there is a Poison

	Poison *PoisonError // the first record that fails its check; nil: none
}

func infoOf(st *machine.State) Info {
	h := &st.Header
	return Info{
		ID: h.ID, Mode: h.Mode, Hash: h.Hash, Capacity: h.Capacity, Generation: h.Generation, Epoch: h.Epoch,
		Head: st.Head.Pos, HeadSeq: st.Head.Seq, TailWord: st.Durable, Tail: st.Tail, NextSeq: st.NextSeq, Poison: st.Poison,
	}
}

// Inspect reads a log of size octets that nobody is changing, such as a file, and changes
// nothing. Visit, if not nil, is called with every record that Open would hand out, in order; its
// error ends Inspect. Errors besides: *FormatError, and those of r. A poisoned record is
// no error but in Info.
func Inspect(r io.ReaderAt, size int64, visit func(*Record) error) (*Info, error) {
	st, err := machine.Recover(readerAt{r}, int(size), visit)
	if err != nil {
		return nil, err
	}
	info := infoOf(st)
	return &info, nil
}

type readerAt struct{ r io.ReaderAt }

func (s readerAt) Load(p []byte, off int) error {
	_, err := s.r.ReadAt(p, int64(off))
	return err
}
