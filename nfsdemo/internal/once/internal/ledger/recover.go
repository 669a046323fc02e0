package ledger

import (
	"fmt"
	"slices"
)

// Recovery reads a log after a restart.
type Recovery struct {
	l    *Ledger
	last int64 // the latest time in a record: about the time of the crash
	byNo map[uint64]*Entry
}

// Recover returns an empty ledger, to be filled with the records of a log.
func Recover() *Recovery {
	return &Recovery{l: New(Limits{}), byNo: make(map[uint64]*Entry)}
}

// Add takes the next record, in the order of the log. It copies b. The error is ErrRecord.
func (v *Recovery) Add(b []byte) error {
	var r Record
	if err := r.Parse(b); err != nil {
		return err
	}
	l := v.l
	l.space.used += recordSize(len(b))
	l.next = max(l.next, r.Number+1)
	v.last = max(v.last, r.At)
	e := v.byNo[r.Number]
	switch {
	case r.Kind == Void:
		if e != nil && e.phase == running {
			v.drop(e)
		}
		return nil
	case e != nil && e.key != r.Key:
		return fmt.Errorf("%w: two calls have the number %d", ErrRecord, r.Number)
	case e == nil:
		if old := l.calls[r.Key]; old != nil {
			if old.number > r.Number {
				return nil // a copy of the record of an earlier call
			}
			v.drop(old) // it had expired: otherwise this call would have been its duplicate
		}
		e = &Entry{key: r.Key, number: r.Number}
		v.byNo[r.Number], l.calls[r.Key] = e, e
	}
	v.add(e, &r, b)
	return nil
}

// add notes one more record of e.
func (v *Recovery) add(e *Entry, r *Record, b []byte) {
	switch {
	case r.Kind == Intent && e.phase == running:
		e.intent, e.at = slices.Clone(b), r.At
	case r.Kind == Reply:
		if e.phase == running {
			e.phase, e.intent, e.copies = done, nil, 0
		}
		e.result, e.at = slices.Clone(r.Result), r.At
	default:
		return
	}
	e.copies++
	e.size = recordSize(len(b))
}

func (v *Recovery) drop(e *Entry) {
	delete(v.byNo, e.number)
	if v.l.calls[e.key] == e {
		delete(v.l.calls, e.key)
	}
}

// Last returns the latest time in a record, 0 if there is none. The now of End must not be earlier.
func (v *Recovery) Last() int64 { return v.last }

// Unsettled is a call with an intent but no reply.
type Unsettled struct {
	Entry *Entry
	Record
}

// End returns the ledger, with its limits, and the calls that must be settled, in the order in which
// they came. The time since the last record does not make replies older: while the server was down, no
// client could ask.
func (v *Recovery) End(lim Limits, now int64) (*Ledger, []Unsettled) {
	l := v.l
	l.lim = lim
	var replies []*Entry
	var open []Unsettled
	for _, e := range l.calls {
		if e.phase == done {
			e.at += now - v.last
			replies = append(replies, e)
			continue
		}
		l.space.live += e.size
		u := Unsettled{Entry: e}
		_ = u.Parse(e.intent) // parsed without error before
		open = append(open, u)
	}
	slices.SortFunc(replies, func(a, b *Entry) int { return compare(a.at, b.at, a.number, b.number) })
	slices.SortFunc(open, func(a, b Unsettled) int { return compare(0, 0, a.Number, b.Number) })
	l.running = len(open)
	for _, e := range replies {
		l.space.live += e.size
		l.keep(e)
	}
	l.expire(now)
	return l, open
}

func compare(a, b int64, x, y uint64) int {
	switch {
	case a < b, a == b && x < y:
		return -1
	case a == b && x == y:
		return 0
	}
	return 1
}
