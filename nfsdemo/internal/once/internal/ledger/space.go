package ledger

// How the ring is divided. The kept replies and everything that running calls may still append always
// fit after the octets in use, so that a sweep never waits for room that only it can make.
const (
	keptShare  = 8 // the part of the ring that replies may take: an eighth
	recordHead = 20
	recordUnit = 64
)

// space is what the ledger knows about the log: the octets in use, from the first record that was not
// released to the last one appended.
type space struct {
	used   int
	passed int // of these, passed but still in the log
	live   int // of these, records that count: intents of running calls, and replies
	kept   int // of these, kept replies
	copied uint64
}

// recordSize returns how many octets a record of n octets takes in the ring
// (docs/commitlog-format.md).
func recordSize(n int) int { return (recordHead + n + recordUnit - 1) / recordUnit * recordUnit }

// appended counts a record of e that goes to the log.
func (l *Ledger) appended(e *Entry, b []byte) {
	e.copies++
	e.size = recordSize(len(b))
	l.space.used += e.size
}

// room reports whether there is room for another intent of n octets, and for the replies of all
// calls.
func (l *Ledger) room(n int) bool {
	reply := recordSize(l.lim.MaxReply + MaxOverhead)
	return l.space.used+recordSize(n)+(l.running+1)*reply <= l.lim.Capacity/4*3
}

// Crowded reports whether a sweep is worthwhile: half of the ring is in use, in part by records that
// no longer count.
func (l *Ledger) Crowded() bool {
	return l.space.used > l.lim.Capacity/2 && l.space.used-l.space.live > l.lim.Capacity/16
}

// Fate says what to do with the oldest record of the log.
type Fate uint8

// The fates.
const (
	Dead Fate = iota // nobody needs it: its room can be released
	Copy             // it must be appended again, and durable, before its room is released
	Wait             // a record that replaces it is on its way: ask again later
)

// Pass says what to do with the oldest record of the log, b. With Copy it returns what to append.
// After Dead and Copy the next record becomes the oldest; b leaves the log with Released. Octets that
// are not a record are Dead: they were refused before.
func (l *Ledger) Pass(b []byte, now int64) ([]byte, Fate) {
	l.expire(now)
	var r Record
	if r.Parse(b) != nil || r.Kind == Void {
		l.space.passed += recordSize(len(b))
		return nil, Dead
	}
	e := l.calls[r.Key]
	switch {
	case e == nil || e.number != r.Number:
	case e.phase == replying:
		return nil, Wait
	case (r.Kind == Intent) == (e.phase == running):
		if e.copies--; e.copies == 0 {
			l.space.passed += recordSize(len(b))
			return l.again(e), Copy
		}
	}
	l.space.passed += recordSize(len(b))
	return nil, Dead
}

// Released tells l that the log has released the room of all passed records. Until then the room is in
// use, because after a crash the same records must fit again.
func (l *Ledger) Released() {
	l.space.used -= l.space.passed
	l.space.passed = 0
}

// again returns the record of e that counts, to be appended again.
func (l *Ledger) again(e *Entry) []byte {
	l.space.copied++
	c := e.intent
	if e.phase == done {
		c = e.record()
	}
	l.appended(e, c)
	return c
}
