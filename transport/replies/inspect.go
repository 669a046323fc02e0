package replies

import (
	"fmt"
	"io"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// State is the content of the logs of a client.
type State struct {
	Replies    []*Record // like Client.Recovered
	Unanswered []*Issued // like Client.Unanswered
}

// Inspect reads the log of replies, and the log of calls unless that is nil. It changes nothing.
// The logs should not be in use meanwhile. Errors: *commitlog.FormatError,
// *commitlog.PoisonError, ErrForeign, and those of reading.
func Inspect(replies, calls *io.SectionReader) (*State, error) {
	var st State
	err := inspect(replies, func(seq uint64, payload []byte) bool {
		r, ok := parseRecord(seq, payload)
		if ok {
			st.Replies = append(st.Replies, r)
		}
		return ok
	})
	if err != nil || calls == nil {
		return &st, err
	}
	a := newAsked()
	err = inspect(calls, func(_ uint64, payload []byte) bool { return a.recovered(payload) })
	for _, r := range st.Replies {
		a.end(callKey{r.Epoch, r.XID})
	}
	st.Unanswered = a.calls()
	return &st, err
}

func inspect(r *io.SectionReader, each func(seq uint64, payload []byte) bool) error {
	info, err := commitlog.Inspect(r, r.Size(), func(rec *commitlog.Record) error {
		if !each(rec.Seq, rec.Payload) {
			return fmt.Errorf("%w: record %d", ErrForeign, rec.Seq)
		}
		return nil
	})
	if err == nil && info.Poison != nil {
		err = info.Poison
	}
	return err
}
