package ledger

import (
	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/fair"
)

// Limits restricts what a Ledger keeps. The room in the ring limits the running calls.
type Limits struct {
	Entries  int   // replies kept in total
	PerAddr  int   // replies kept for one address
	Time     int64 // ns that a reply is kept; the time between a crash and the restart does not count
	Capacity int   // octets of the log's ring
	MaxReply int   // most octets of results
}

// Entry is a call that is running or has a reply.
type Entry struct {
	// Tag belongs to the owner.
	Tag any

	key    Key
	number uint64
	phase  phase
	at     int64  // of the reply
	intent []byte // the record, until there is a reply
	result []byte
	copies int // records of the current phase that are in the log
	size   int // octets that the last of them takes there
	place  fair.Item[callid.Client, *Entry]
}

// phase says how far a call has come.
type phase uint8

const (
	running  phase = iota // from Begin on
	replying              // the reply may not be durable yet
	done
)

// Done reports whether the call has a durable reply, which Result then returns.
func (e *Entry) Done() bool { return e.phase == done }

// Result returns the results of a call that is Done. They never change.
func (e *Entry) Result() []byte { return e.result }

// Number returns the number of the call.
func (e *Entry) Number() uint64 { return e.number }

// Stats counts what a Ledger holds and has done.
type Stats struct {
	Replies int    // kept now
	Running int    // calls with an intent and no reply yet
	Octets  int    // of the ring in use
	Expired uint64 // replies forgotten because their time was over
	Evicted uint64 // replies forgotten before their time
	Copied  uint64 // records written again, so that the room before them could be released
}

// Ledger is the machine. It is not safe for concurrent use.
type Ledger struct {
	lim     Limits
	calls   map[Key]*Entry
	next    uint64 // number of the next call
	replies *fair.Queue[callid.Client, *Entry]
	space   space

	running          int
	expired, evicted uint64
}

// New returns an empty ledger.
func New(lim Limits) *Ledger {
	return &Ledger{lim: lim, next: 1, calls: make(map[Key]*Entry), replies: fair.New[callid.Client, *Entry]()}
}

// Begin enters a call that has come. For a new call first is true, and the owner continues with
// Intend. Otherwise the call has come before, and the entry says whether it is Done.
func (l *Ledger) Begin(k Key, now int64) (e *Entry, first bool) {
	l.expire(now)
	k.Client = cut(k.Client)
	if e := l.calls[k]; e != nil {
		return e, false
	}
	e = &Entry{key: k, number: l.next}
	l.next++
	l.calls[k] = e
	return e, true
}

// Intend returns the record that must be durable before the call is executed, or nil if there is no
// room for it until calls, or a sweep, have ended. It copies args and state.
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

// Reply returns the record that must be durable before the reply is sent; then the owner calls Done.
// It copies result.
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

// Done tells l that the record of Reply is durable. If there are too many replies, older ones are
// dropped: first those of the same address, if it has more than its share, and among these those of
// the client with the most replies.
func (l *Ledger) Done(e *Entry, now int64) {
	e.phase = done
	l.over(e)
	l.keep(e)
	l.expire(now)
}

// Void tells l that a call was not executed, and returns the record of that. Nobody need wait for the
// record: without it the call is settled again.
func (l *Ledger) Void(e *Entry) []byte {
	l.Drop(e)
	r := Record{Kind: Void, Number: e.number}
	b := r.Append(nil)
	l.space.used += recordSize(len(b))
	return b
}

// Drop forgets a running call, about which nothing more is recorded.
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

// over notes that the intent of e no longer counts.
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
