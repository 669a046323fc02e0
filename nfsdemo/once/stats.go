package once

import (
	"errors"
	"fmt"
)

// Stats is what a journal has done since Open, and holds.
type Stats struct {
	Records  uint64 // appended: intents, replies and what was settled
	Replayed uint64 // calls that came again and got the reply they had
	Joined   uint64 // calls that came again while they ran
	Refused  uint64 // calls that were refused as they could not be recorded

	SettledDone, SettledNotDone, SettledUnknown uint64 // calls that a crash had left open

	Replies  int    // kept now
	Running  int    // calls under way
	Octets   int    // of the ring in use
	Capacity int    // octets of the ring
	Expired  uint64 // replies forgotten as their time was over
	Evicted  uint64 // replies forgotten before, to stay within the limits
	Copied   uint64 // records written again to make room
	Sweeps   uint64 // rounds of making room

	Err error `json:"-"` // why nothing is taken any more; nil: it is
}

// Stats returns a snapshot.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, l := j.stats, j.led.Stats()
	s.Replies, s.Running, s.Octets, s.Capacity = l.Replies, l.Running, l.Octets, int(j.log.Info().Capacity)
	s.Expired, s.Evicted, s.Copied, s.Err = l.Expired, l.Evicted, l.Copied, j.Err()
	return s
}

// String says in one line what there is to say.
func (s Stats) String() string {
	text := fmt.Sprintf("%d records, %d replies kept, %d calls answered again", s.Records, s.Replies, s.Replayed+s.Joined)
	if n := s.SettledDone + s.SettledNotDone + s.SettledUnknown; n > 0 {
		text += fmt.Sprintf(", %d calls settled after a crash (%d done, %d not, %d unknown)", n, s.SettledDone, s.SettledNotDone, s.SettledUnknown)
	}
	if s.Refused > 0 {
		text += fmt.Sprintf(", %d refused", s.Refused)
	}
	if s.Err != nil && !errors.Is(s.Err, ErrClosed) {
		text += ": " + s.Err.Error()
	}
	return text
}
