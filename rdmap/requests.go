package rdmap

import "sync"

// inFlight is what the receiving half knows of the sending half: the requests in flight in both directions. lock is that
// under which work requests are posted.
type inFlight struct {
	lock sync.Locker
	snd  *sender
}

// freeSlots returns how many more requests the peer may send now.
func (q inFlight) freeSlots() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.freeSlots()
}

// enqueue takes a request of the peer. It reports false if there is no slot.
func (q inFlight) enqueue(req *request) bool {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.aborted || q.snd.request(req) // after the end, nothing is answered any more
}

// head returns the oldest request of ours in flight.
func (q inFlight) head() (outRead, bool) {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.readHead()
}

// behind returns the octets of the Read after that one, 0 if there is none.
func (q inFlight) behind() uint32 {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.snd.reads.Len() < 2 {
		return 0
	}
	return q.snd.reads.At(1).size
}

// expected returns how many responses are due on queue 3.
func (q inFlight) expected() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.due
}

// answered ends the oldest request of ours, and appends the completions that are due to out.
func (q inFlight) answered(out []completion) []completion {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.snd.readDone(out)
}

// release lets a responder send.
func (q inFlight) release() {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.snd.held = false
}
