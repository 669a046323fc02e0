package commitlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// another returns one more producer for the log.
func another() *commitlog.Sender {
	return commitlog.NewSender(commitlog.Limits{InFlight: 2, Batch: 1}, false)
}

// turnTo opens a session for p, whoever had the last one.
func (w *world) turnTo(p *commitlog.Sender) error {
	w.prod.Lost()
	w.prod = p
	return w.open()
}

// foreign is turnTo for a producer that must hear that others have appended.
func (w *world) foreign(p *commitlog.Sender) error {
	if err := w.turnTo(p); !errors.Is(err, commitlog.ErrLostRecords) {
		return fmt.Errorf("a producer continues after the records of another: %w", err)
	}
	return w.turnTo(another())
}

// turnScripts are producers that take turns. Each has appends that nobody has answered while
// the others have the log, and what they append has the same numbers.
var turnScripts = []crashScript{
	{"a record of another under the same number", worldOptions{capacity: 512}, func(w *world) error {
		w.add(36)
		w.send() // and nothing of it arrives
		first := w.prod
		if err := w.turnTo(another()); err != nil {
			return err
		}
		w.add(60)
		return errors.Join(w.settle(), w.foreign(first))
	}},
	{"the same, and the ring is empty", worldOptions{capacity: 256}, func(w *world) error {
		w.add(36)
		w.send()
		first := w.prod
		if err := w.turnTo(another()); err != nil {
			return err
		}
		w.add(60)
		return errors.Join(w.through(), w.restart(), w.restart(), w.foreign(first))
	}},
	{"survivors, then records of another", worldOptions{capacity: 512, inFlight: 4, batch: 1}, func(w *world) error {
		w.add(36, 36, 36, 36)
		for w.send() {
		}
		w.place()
		w.execute(3) // the first is in the log
		first := w.prod
		if err := w.turnTo(another()); err != nil {
			return err
		}
		w.add(60, 60)
		return errors.Join(w.settle(), w.foreign(first))
	}},
	{"another who appends nothing", worldOptions{capacity: 512, inFlight: 4, batch: 1}, func(w *world) error {
		for range 2 {
			w.add(36, 10)
			for w.send() {
			}
			w.place()
			w.execute(3)
			first := w.prod
			if err := errors.Join(w.turnTo(another()), w.restart(), w.turnTo(another()), w.turnTo(first)); err != nil {
				return err // what has survived is the first one's
			}
			if err := w.through(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"three in any order", worldOptions{capacity: 768, inFlight: 3, batch: 256}, anyTurns(1)},
	{"three in any order, again", worldOptions{capacity: 512, inFlight: 2, batch: 1}, anyTurns(9)},
}

// anyTurns has three producers take turns as drawn. One that hears of records of others is
// replaced.
func anyTurns(seed uint64) func(w *world) error {
	return func(w *world) error {
		r := rand.New(rand.NewPCG(seed, 7))
		prods := []*commitlog.Sender{w.prod, another(), another()}
		refused := 0
		for range 7 {
			i := r.IntN(len(prods))
			switch err := w.turnTo(prods[i]); {
			case errors.Is(err, commitlog.ErrLostRecords):
				refused++
				prods[i] = another()
				if err := w.turnTo(prods[i]); err != nil {
					return err
				}
			case err != nil:
				return err
			}
			if err := w.play(r, 10+r.IntN(120), []int{0, 10, 36, 100}); err != nil {
				return err
			}
		}
		if refused == 0 {
			return errors.New("no producer met the records of another")
		}
		return errors.Join(w.turnTo(another()), w.through())
	}
}
