package ledger

import "github.com/stag-rdma/stag/internal/fair"

// Limits bounds what a Ledger keeps. Calls under way are bounded by the room in the ring.
type Limits struct {
	Entries  int   // replies kept in all
	PerAddr  int   // replies kept for one address
	Time     int64 // ns that a reply is kept; what passes between a crash and the restart does not count
	Capacity int   // octets of the log's ring
	MaxReply int   // octets of results at most
}

// Entry is a call that is under way or has a reply.
type Entry struct {
	// Tag is the owner's.
	Tag any

	key    Key
	number uint64
	phase  phase
	at     int64  // of the reply
	intent []byte // the record, until there is a reply
	result []byte
	copies int // records of the phase that are in the log
	size   int // what they take there, the last of them
	place  fair.Item[Client, *Entry]
}

// phase is how far a call has come.
type phase uint8

const (
	running  phase = iota // from Begin on
	replying              // the reply may not be durable yet
	done
)

// Done says whether the call has a durable reply: Result returns it then.
func (e *Entry) Done() bool { return e.phase == done }

// Result returns the results of a call that is Done. They never change.
func (e *Entry) Result() []byte { return e.result }

// Number returns the number of the call.
func (e *Entry) Number() uint64 { return e.number }

// Stats is what a Ledger holds and has done.
type Stats struct {
	Replies int    // kept now
	Running int    // calls under way, from their intents on
	Octets  int    // of the ring in use
	Expired uint64 // replies forgotten as their time was over
	Evicted uint64 // replies forgotten before
	Copied  uint64 // records written again, so that the room before them could be given back
}

// Ledger is the machine. It is not safe for concurrent use.
type Ledger struct {
	lim     Limits
	calls   map[Key]*Entry
	next    uint64 // number of the next call
	replies *fair.Queue[Client, *Entry]
	space   space

	running          int
	expired, evicted uint64
}

// New returns an empty ledger.
func New(lim Limits) *Ledger {
	return &Ledger{lim: lim, next: 1, calls: make(map[Key]*Entry), replies: fair.New[Client, *Entry]()}
}

// Begin says that a call has come. If it is new, its entry is returned with true, and the
// owner goes on with Intend. Else it has come before, and the entry says whether it is Done.
func (l *Ledger) Begin(k Key, now int64) (e *Entry, first bool) {
	l.expire(now)
	k.Client = k.Client.cut()
	if e := l.calls[k]; e != nil {
		return e, false
	}
	e = &Entry{key: k, number: l.next}
	l.next++
	l.calls[k] = e
	return e, true
}

// Intend returns the record that is to be durable before the call is executed, or nil if
// there is no room for it now: until calls have ended, or a sweep has. It copies args and
// state.
func (l *Ledger) Intend(e *Entry, args, state []byte, now int64) []byte {
	r := Record{Kind: Intent, Number: e.number, Key: e.key, At: now, Args: args, State: state}
	b := r.Append(nil)
	if !l.room(len(b)) {
		return nil
	}
	e.intent = b
	l.running++
	l.space.live += recordSize(len(b))
	l.appended(e, b)
	return b
}

// Reply returns the record that is to be durable before the reply leaves: then the owner
// calls Done. It copies result.
func (l *Ledger) Reply(e *Entry, result []byte, now int64) []byte {
	e.phase, e.result, e.at = replying, append([]byte{}, result...), now
	e.copies = 0
	b := e.record()
	l.appended(e, b)
	l.space.live += e.size
	return b
}

// record returns the record of a reply.
func (e *Entry) record() []byte {
	r := Record{Kind: Reply, Number: e.number, Key: e.key, At: e.at, Result: e.result}
	return r.Append(nil)
}

// Done says that the record of Reply is durable. Older replies make room: those of the
// same address first, when it has more than its share, and there those of the client that
// has most.
func (l *Ledger) Done(e *Entry, now int64) {
	e.phase = done
	l.over(e)
	l.keep(e)
	l.expire(now)
}

// Void says that a call was not executed, and returns the record of that, which need not
// be waited for: without it the call is settled again.
func (l *Ledger) Void(e *Entry) []byte {
	l.Drop(e)
	r := Record{Kind: Void, Number: e.number}
	b := r.Append(nil)
	l.space.used += recordSize(len(b))
	return b
}

// Drop forgets a call under way, of which nothing is to be recorded any more.
func (l *Ledger) Drop(e *Entry) {
	if l.calls[e.key] != e || e.phase == done {
		return
	}
	delete(l.calls, e.key)
	if e.phase == replying {
		l.space.live -= e.size
	}
	l.over(e)
}

// over says that the intent of e does not count any more.
func (l *Ledger) over(e *Entry) {
	if e.intent != nil {
		l.running--
		l.space.live -= recordSize(len(e.intent))
		e.intent = nil
	}
}

// Stats returns the counters.
func (l *Ledger) Stats() Stats {
	return Stats{
		Replies: l.replies.Len(), Running: l.running, Octets: l.space.used,
		Expired: l.expired, Evicted: l.evicted, Copied: l.space.copied,
	}
}
