package once

import (
	"errors"
	"fmt"
)

// Stats counts what a journal has done since Open, and what it holds.
type Stats struct {
	Records  uint64 // appended: intents, replies and settled calls
	Replayed uint64 // repeated calls that got the reply of the first one
	Joined   uint64 // repeated calls that came while the first one was running
	Refused  uint64 // calls that were refused because they could not be recorded

	SettledDone, SettledNotDone, SettledUnknown uint64 // calls that a crash has left open

	Replies  int    // kept now
	Running  int    // running calls
	Octets   int    // of the ring in use
	Capacity int    // octets of the ring
	Expired  uint64 // replies forgotten because their time was over
	Evicted  uint64 // replies forgotten before their time, to stay within the limits
	Copied   uint64 // records written again to make room
	Sweeps   uint64 // rounds of making room

	Err error `json:"-"` // why no calls are accepted anymore; nil if they are
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

// String returns one line with the counters that matter to users.
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
