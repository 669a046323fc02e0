package lease

import (
	"slices"
	"time"
)

// Ticket is an NFS operation that waits for records to be applied, or that runs.
type Ticket[F comparable] struct {
	// Err is valid when Run names the ticket. If not nil, the operation must fail: a record
	// that it would have to see cannot be applied.
	Err error

	files  []F
	change bool
	tails  map[*log[F]]uint64 // last records that were acknowledged when it began
	runs   bool
}

// Look begins an operation that must see everything acknowledged for files so far; tail returns the
// sequence number of a log's last record. Run follows, at once or when the records before it have
// been applied. Done is not needed.
func (t *Table[F]) Look(tail func(Log) uint64, files ...F) (*Ticket[F], []Action[F]) {
	return t.begin(&Ticket[F]{files: files}, tail, time.Time{})
}

// Change begins an operation that changes files, their attributes or their names other than by
// records. It recalls leases on the files; until Done no new ones are granted. Run follows when no
// lease is left and their records have been applied.
func (t *Table[F]) Change(tail func(Log) uint64, now time.Time, files ...F) (*Ticket[F], []Action[F]) {
	return t.begin(&Ticket[F]{files: files, change: true}, tail, now)
}

func (t *Table[F]) begin(k *Ticket[F], tail func(Log) uint64, now time.Time) (*Ticket[F], []Action[F]) {
	t.out = t.out[:0]
	k.tails = make(map[*log[F]]uint64)
	k.files = distinct(k.files)
	for _, f := range k.files {
		y := t.file(f)
		y.waiting = append(y.waiting, k)
		if k.change {
			y.changing++
		}
		for _, s := range y.leases {
			k.tails[s.log] = tail(s.log.id)
			if k.change {
				t.recall(s, now)
			}
		}
	}
	for _, f := range k.files {
		if y := t.files[f]; y != nil {
			t.run(y)
			t.forget(f, y)
		}
	}
	return k, t.out
}

// Done tells t that a Change is over, or that nobody waits for k anymore.
func (t *Table[F]) Done(k *Ticket[F]) []Action[F] {
	t.out = t.out[:0]
	if !k.runs {
		t.leave(k)
	}
	if k.change {
		k.change = false
		for _, f := range k.files {
			y := t.files[f]
			y.changing--
			t.forget(f, y)
		}
	}
	return t.out
}

// run runs the operations on y that need not wait anymore, and asks for the records that the
// others wait for.
func (t *Table[F]) run(y *file[F]) {
	for _, k := range slices.Clone(y.waiting) {
		if t.ready(k) {
			k.runs = true
			t.leave(k)
			t.out = append(t.out, Action[F]{Kind: Run, Ticket: k})
		}
	}
}

// ready reports whether k need not wait anymore. If it must, all logs that it waits for are drained
// at the same time.
func (t *Table[F]) ready(k *Ticket[F]) bool {
	free := true
	for _, f := range k.files {
		free = t.clear(k, t.files[f]) && free
		if k.Err != nil {
			return true
		}
	}
	return free
}

// clear reports whether k need not wait because of the leases on y.
func (t *Table[F]) clear(k *Ticket[F], y *file[F]) bool {
	free := true
	for _, s := range y.leases {
		upto, seen := k.tails[s.log]
		switch {
		case !seen || s.log.applied >= upto && !k.change:
			continue
		case s.ended:
			upto = s.final
		}
		free = false
		if k.Err = s.log.err; k.Err != nil {
			return false
		}
		t.drain(s.log, upto)
	}
	return free
}

// leave removes k from the files that it waits for.
func (t *Table[F]) leave(k *Ticket[F]) {
	for _, f := range k.files {
		y := t.files[f]
		y.waiting = slices.DeleteFunc(y.waiting, func(o *Ticket[F]) bool { return o == k })
		t.forget(f, y)
	}
}

// distinct returns files without duplicates, as in a RENAME within a directory.
func distinct[F comparable](files []F) []F {
	var once []F
	for _, f := range files {
		if !slices.Contains(once, f) {
			once = append(once, f)
		}
	}
	return once
}
