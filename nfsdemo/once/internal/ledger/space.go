package ledger

// What of the ring is for what. What is kept and what the calls under way may still append
// always fits behind what is in use, so that a sweep never waits for room that only it can
// make.
const (
	keptShare  = 8 // the part of the ring that replies may take: an eighth
	recordHead = 20
	recordUnit = 64
)

// space is what the log holds, as far as the ledger knows: octets in use, between the
// first record that was not passed and the last one appended.
type space struct {
	used   int
	kept   int // by replies that are kept, one record each
	swept  int // in use when the last sweep ended
	copied uint64
}

// recordSize returns what a record of n octets takes in the ring
// (docs/commitlog-format.md).
func recordSize(n int) int { return (recordHead + n + recordUnit - 1) / recordUnit * recordUnit }

// appended counts a record of e that goes to the log.
func (l *Ledger) appended(e *Entry, b []byte) {
	e.copies++
	e.size = recordSize(len(b))
	l.space.used += e.size
}

// Room says whether there is room for the intent of one more call, of n octets, and for
// the replies of all. If not, the owner lets calls end, or sweeps.
func (l *Ledger) Room(n int) bool {
	reply := recordSize(l.lim.MaxReply + MaxOverhead)
	return l.space.used+recordSize(n)+l.running*reply <= l.lim.Capacity/4*3
}

// Crowded says that a sweep is worth while: half of the ring is in use, and more than
// after the last one.
func (l *Ledger) Crowded() bool {
	return l.space.used > l.lim.Capacity/2 && l.space.used-l.space.swept > l.lim.Capacity/16
}

// Swept says that a sweep is over.
func (l *Ledger) Swept() { l.space.swept = l.space.used }

// Fate is what is to become of the oldest record of the log.
type Fate uint8

// The fates.
const (
	Dead Fate = iota // nobody needs it: its room can be given back
	Copy             // it is to be appended again, and durable, before its room is given back
	Wait             // a record that replaces it is on its way: ask again later
)

// Pass says what is to become of the oldest record of the log, b. With Copy it returns what
// to append, with Dead and Copy b counts as gone. Octets that are no record are Dead: they
// were refused before.
func (l *Ledger) Pass(b []byte, now int64) ([]byte, Fate) {
	l.expire(now)
	var r Record
	if r.Parse(b) != nil || r.Kind == Void {
		l.space.used -= recordSize(len(b))
		return nil, Dead
	}
	e := l.calls[r.Key]
	if e == nil || e.number != r.Number || r.Kind == Reply && e.phase == running || r.Kind == Intent && e.phase == done {
		l.space.used -= recordSize(len(b))
		return nil, Dead
	}
	if e.phase == replying {
		return nil, Wait
	}
	l.space.used -= recordSize(len(b))
	if e.copies--; e.copies > 0 {
		return nil, Dead
	}
	l.space.copied++
	if e.phase == running {
		l.appended(e, e.intent)
		return e.intent, Copy
	}
	c := e.record()
	e.copies++
	l.space.used += e.size
	return c, Copy
}
