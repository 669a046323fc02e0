package lease

import (
	"maps"
	"slices"
	"time"
)

// log is what the table knows of a commit log.
type log[F comparable] struct {
	id      Log
	leases  map[ID]*lease[F] // live, or ended with records to apply
	applied uint64           // last sequence number applied
	wanted  uint64           // up to here a Drain has been asked for
	err     error            // why the record behind applied cannot be applied
	open    bool             // its client may append
	fencing bool             // Fence is asked for
}

// Opened says that a client may append to log l from now on. applied is the last record
// that has been applied, or is nobody's; it counts when l is not known yet. A log that is
// opened again must have been Fenced before.
func (t *Table[F]) Opened(l Log, applied uint64) {
	t.known(l, applied).open = true
}

// Restore makes a lease of before a restart of the server known, whose records may not
// have been applied: Fenced must follow, and ends it.
func (t *Table[F]) Restore(l Log, applied uint64, id ID, f F) {
	s := &lease[F]{id: id, f: f, log: t.known(l, applied)}
	t.last = max(t.last, id)
	t.hold(s)
}

func (t *Table[F]) known(l Log, applied uint64) *log[F] {
	x := t.logs[l]
	if x == nil {
		x = &log[F]{id: l, applied: applied, wanted: applied, leases: make(map[ID]*lease[F])}
		t.logs[l] = x
	}
	return x
}

// Fenced ends all leases of log l: its client can append no more, and final is the last
// record. It is also said when a client closes its log, and before it opens it again.
func (t *Table[F]) Fenced(l Log, final uint64) []Action[F] {
	t.out = t.out[:0]
	x := t.logs[l]
	if x == nil {
		return nil
	}
	x.open, x.fencing = false, false
	for _, s := range x.list() {
		if !s.ended {
			t.end(s, final)
		}
	}
	t.dropLog(x)
	return t.out
}

// Applied says that all records of l up to seq have been applied.
func (t *Table[F]) Applied(l Log, seq uint64) []Action[F] {
	t.out = t.out[:0]
	x := t.logs[l]
	if x == nil || seq <= x.applied {
		return nil
	}
	x.applied, x.err = seq, nil
	t.settleAll(x)
	return t.out
}

// Failed says that the record behind the last Applied of l cannot be applied. It stays,
// and with it all behind it: who waits for them gets err. Applied or Retry ends that.
func (t *Table[F]) Failed(l Log, err error) []Action[F] {
	t.out = t.out[:0]
	if x := t.logs[l]; x != nil {
		x.err = err
		t.settleAll(x)
	}
	return t.out
}

// Tick fences the logs of those who have not returned a lease in time.
func (t *Table[F]) Tick(now time.Time) []Action[F] {
	t.out = t.out[:0]
	for _, s := range t.leases {
		if s.overdue() && !now.Before(s.deadline) {
			s.log.fencing = true
			t.out = append(t.out, Action[F]{Kind: Fence, Log: s.log.id})
		}
	}
	return t.out
}

// Deadline is when Tick will have something to do; zero: nothing is recalled.
func (t *Table[F]) Deadline() (first time.Time) {
	for _, s := range t.leases {
		if s.overdue() && (first.IsZero() || s.deadline.Before(first)) {
			first = s.deadline
		}
	}
	return first
}

// overdue reports whether s will cost its log the right to append, once its time is over.
func (s *lease[F]) overdue() bool {
	return !s.ended && !s.log.fencing && !s.deadline.IsZero()
}

// list is a copy of x.leases, in order, for those who end leases as they go.
func (x *log[F]) list() []*lease[F] {
	all := slices.Collect(maps.Values(x.leases))
	slices.SortFunc(all, func(a, b *lease[F]) int { return int(a.id) - int(b.id) })
	return all
}

func (t *Table[F]) settleAll(x *log[F]) {
	for _, s := range x.list() {
		if t.leases[s.id] == s { // not gone with another lease on the same file
			t.settle(s.f)
		}
	}
	t.dropLog(x)
}

// drain asks once for what is behind wanted.
func (t *Table[F]) drain(x *log[F], upto uint64) {
	if upto > x.wanted {
		x.wanted = upto
		t.out = append(t.out, Action[F]{Kind: Drain, Log: x.id, Upto: upto})
	}
}

// dropLog forgets a log to which nobody appends when nothing of it is left to apply.
func (t *Table[F]) dropLog(x *log[F]) {
	if !x.open && len(x.leases) == 0 {
		delete(t.logs, x.id)
	}
}
