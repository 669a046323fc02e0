package lease

import (
	"maps"
	"slices"
	"time"
)

// log is what the table knows about a commit log.
type log[F comparable] struct {
	id      Log
	leases  map[ID]*lease[F] // live, or ended with records to apply
	applied uint64           // last sequence number applied
	wanted  uint64           // last sequence number that a Drain has asked for
	err     error            // why the record after applied cannot be applied
	open    bool             // its client may append
	fencing bool             // a Fence has been asked for
}

// Opened tells t that a client may append to log l from now on. applied is the last record that
// was applied or has no lease; it is ignored if t knows l already. Before a log is opened again, it
// must have been Fenced.
func (t *Table[F]) Opened(l Log, applied uint64) {
	t.known(l, applied).open = true
}

// Restore adds a lease from before a restart of the server, whose records may not have been
// applied. Fenced must follow, which ends the lease.
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

// Fenced ends all leases of log l: its client can append no more, and final is its last record. The
// caller also calls it when a client closes its log, and before the client opens it again.
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

// Applied tells t that all records of l up to seq have been applied.
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

// Failed tells t that the record after the last Applied of l cannot be applied. It and the records
// after it stay; operations that wait for them fail with err, until Applied or Retry.
func (t *Table[F]) Failed(l Log, err error) []Action[F] {
	t.out = t.out[:0]
	if x := t.logs[l]; x != nil {
		x.err = err
		t.settleAll(x)
	}
	return t.out
}

// Tick fences the logs of clients that have not returned a lease in time.
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

// Deadline returns when Tick will have something to do, or zero if no lease is being recalled.
func (t *Table[F]) Deadline() (first time.Time) {
	for _, s := range t.leases {
		if s.overdue() && (first.IsZero() || s.deadline.Before(first)) {
			first = s.deadline
		}
	}
	return first
}

// overdue reports whether the log of s is fenced when the deadline of s passes.
func (s *lease[F]) overdue() bool {
	return !s.ended && !s.log.fencing && !s.deadline.IsZero()
}

// list returns a sorted copy of x.leases, for loops that end leases.
func (x *log[F]) list() []*lease[F] {
	all := slices.Collect(maps.Values(x.leases))
	slices.SortFunc(all, func(a, b *lease[F]) int { return int(a.id) - int(b.id) })
	return all
}

func (t *Table[F]) settleAll(x *log[F]) {
	for _, s := range x.list() {
		if t.leases[s.id] == s { // not removed together with another lease on the same file
			t.settle(s.f)
		}
	}
	t.dropLog(x)
}

// drain asks for the records up to upto, if it has not done so already.
func (t *Table[F]) drain(x *log[F], upto uint64) {
	if upto > x.wanted {
		x.wanted = upto
		t.out = append(t.out, Action[F]{Kind: Drain, Log: x.id, Upto: upto})
	}
}

// dropLog forgets a log if nobody appends to it and all its records have been applied.
func (t *Table[F]) dropLog(x *log[F]) {
	if !x.open && len(x.leases) == 0 {
		delete(t.logs, x.id)
	}
}
