package lease

import (
	"slices"
	"time"
)

// Ticket is an NFS operation that waits for records to be applied, or runs.
type Ticket[F comparable] struct {
	// Err is why the operation must fail, when Run names the ticket: a record that it
	// would have to see cannot be applied.
	Err error

	files  []F
	change bool
	tails  map[*log[F]]uint64 // what was acknowledged when it began
	runs   bool
}

// Look begins an operation that reads of files what was acknowledged by now: tail says,
// for a log, the sequence number of its last record. Run follows, at once or when what
// lies before it has been applied. It need not be told that the operation is over.
func (t *Table[F]) Look(tail func(Log) uint64, files ...F) (*Ticket[F], []Action[F]) {
	return t.begin(&Ticket[F]{files: files}, tail, time.Time{})
}

// Change begins an operation that changes files, their attributes or their names other
// than by records. Leases on them are recalled; until Done no new ones are granted. Run
// follows when there are none left and what was appended under them has been applied.
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

// Done says that a Change is over, or that nobody waits for k any more.
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

// run runs the operations that wait for y and need not any more, and asks for the records
// that the others wait for.
func (t *Table[F]) run(y *file[F]) {
	for _, k := range slices.Clone(y.waiting) {
		if t.ready(k) {
			k.runs = true
			t.leave(k)
			t.out = append(t.out, Action[F]{Kind: Run, Ticket: k})
		}
	}
}

// ready reports whether k need not wait any more. While it must, all logs that it waits for
// are drained at the same time.
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

// clear reports whether the leases on y are no reason for k to wait.
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

// leave takes k off the files it waits for.
func (t *Table[F]) leave(k *Ticket[F]) {
	for _, f := range k.files {
		y := t.files[f]
		y.waiting = slices.DeleteFunc(y.waiting, func(o *Ticket[F]) bool { return o == k })
		t.forget(f, y)
	}
}

// distinct returns files without those that are named twice: RENAME within a directory.
func distinct[F comparable](files []F) []F {
	var once []F
	for _, f := range files {
		if !slices.Contains(once, f) {
			once = append(once, f)
		}
	}
	return once
}
