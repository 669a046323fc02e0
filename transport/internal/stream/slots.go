package stream

import "sync"

// maxLent limits the handlers of a record-marked connection that wait for replies of its client at a time.
// Each has a goroutine; the calls of the client are limited to fewer (Config.Credits).
const maxLent = 1024

// slots limits the calls of a record-marked connection in flight. A handler that waits for a reply of its
// client lends its slot: else, with all slots held by such handlers, nobody would read the replies.
type slots struct {
	mu    sync.Mutex
	most  int
	used  int
	lent  int
	hints chan struct{} // wakes the reader
}

func newSlots(most int) slots { return slots{most: most, hints: make(chan struct{}, 1)} }

// take takes a slot. It waits for one until stop is closed; then it returns false.
func (s *slots) take(stop <-chan struct{}) bool {
	for {
		s.mu.Lock()
		free := s.used < s.most+s.lent
		if free {
			s.used++
		}
		s.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-s.hints:
		case <-stop:
			return false
		}
	}
}

// others reports whether more than one call is in flight.
func (s *slots) others() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used > 1
}

// change adds to the slots used and lent.
func (s *slots) change(used, lent int) {
	s.mu.Lock()
	s.used += used
	s.lent += lent
	s.mu.Unlock()
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

func (s *slots) give() { s.change(-1, 0) }

// lend returns the slot of a handler while it waits. It returns false if too many wait already.
func (s *slots) lend() bool {
	s.mu.Lock()
	full := s.lent == maxLent
	s.mu.Unlock()
	if full { // two at once may go one beyond
		return false
	}
	s.change(0, 1)
	return true
}

// back ends lend. The slot is the handler's again, also when another call has taken one meanwhile: then
// more than the usual number run.
func (s *slots) back() { s.change(0, -1) }

// waits reports whether a handler waits for a reply of its client.
func (s *slots) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lent > 0
}
