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
// first record that was not released and the last one appended.
type space struct {
	used   int
	passed int // of these, what was passed and is in the log still
	live   int // of these, what counts: intents of calls under way, and replies
	kept   int // of these, replies that are kept
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

// room says whether there is room for the intent of one more call, of n octets, and for
// the replies of all.
func (l *Ledger) room(n int) bool {
	reply := recordSize(l.lim.MaxReply + MaxOverhead)
	return l.space.used+recordSize(n)+(l.running+1)*reply <= l.lim.Capacity/4*3
}

// Crowded says that a sweep is worth while: half of the ring is in use, and part of that
// for nothing.
func (l *Ledger) Crowded() bool {
	return l.space.used > l.lim.Capacity/2 && l.space.used-l.space.live > l.lim.Capacity/16
}

// Fate is what is to become of the oldest record of the log.
type Fate uint8

// The fates.
const (
	Dead Fate = iota // nobody needs it: its room can be given back
	Copy             // it is to be appended again, and durable, before its room is given back
	Wait             // a record that replaces it is on its way: ask again later
)

// Pass says what is to become of the oldest record of the log, b. With Copy it returns what
// to append. After Dead and Copy the next record has its turn; b is gone with Released.
// Octets that are no record are Dead: they were refused before.
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

// Released says that the log has given back the room of all that was passed. Until then
// it is in use: what a crash leaves must have room for the same once more.
func (l *Ledger) Released() {
	l.space.used -= l.space.passed
	l.space.passed = 0
}

// again returns the record of e that counts, to be appended once more.
func (l *Ledger) again(e *Entry) []byte {
	l.space.copied++
	c := e.intent
	if e.phase == done {
		c = e.record()
	}
	l.appended(e, c)
	return c
}
