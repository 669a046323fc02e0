package commitlog_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

var crashAll = flag.Bool("crash.all", false, "try every crash the model knows, not a part of them (make crash-sim)")

// octets is a Source for what a crash has left.
type octets []byte

func (o octets) Load(p []byte, off int) error {
	copy(p, o[off:off+len(p)])
	return nil
}

// recovered is what recovery hands out.
func recovered(b []byte) (got []pmemtest.Record, err error) {
	st, err := commitlog.RecoverLog(octets(b), len(b), func(r *commitlog.Record) error {
		got = append(got, pmemtest.Record{Seq: r.Seq, Payload: r.Payload})
		return nil
	})
	switch {
	case errors.Is(err, commitlog.ErrMagic):
		return nil, pmemtest.ErrNothing
	case err != nil:
		return nil, err
	case st.Poison != nil:
		return got, st.Poison
	case st.NextSeq != st.Head.Seq+uint64(len(got)):
		return got, fmt.Errorf("next sequence number %d", st.NextSeq)
	}
	return got, nil
}

// crashScript is a workload of the log.
type crashScript struct {
	name string
	worldOptions
	run func(w *world) error
}

// crashScripts cover each rule that a crash can break. Sizes: 36 octets fill a unit.
var crashScripts = []crashScript{
	{"one record", worldOptions{capacity: 512}, func(w *world) error {
		w.add(10)
		return w.settle()
	}},
	{"pipelined", worldOptions{capacity: 1024, batch: 1, inFlight: 4}, func(w *world) error {
		w.add(5, 36, 37, 0)
		for w.send() {
		}
		for len(w.link.wire) > 0 {
			w.deliver() // all Writes are placed before the first flush
		}
		return w.settle()
	}},
	{"group commit", worldOptions{capacity: 2048, inFlight: 1}, func(w *world) error {
		w.add(30)
		w.send()
		w.add(100, 3, 70)
		return w.settle()
	}},
	{"wrap", worldOptions{capacity: 512}, func(w *world) error {
		for range 7 {
			w.add(100)
			if err := w.settle(); err != nil {
				return err
			}
			w.take(2)
			w.release()
		}
		return w.settle()
	}},
	{"wrap with filler", worldOptions{capacity: 640}, func(w *world) error {
		for _, n := range []int{200, 150, 230, 10, 240, 170, 100} {
			w.add(n)
			if err := w.settle(); err != nil {
				return err
			}
			w.take(1)
			w.release()
		}
		return w.settle()
	}},
	{"exact fit", worldOptions{capacity: 256}, func(w *world) error {
		for range 5 {
			w.add(100, 100)
			if err := w.settle(); err != nil {
				return err
			}
			w.take(2)
			w.release()
		}
		return w.settle()
	}},
	{"back-pressure", worldOptions{capacity: 384}, func(w *world) error {
		w.add(100, 100, 100, 100, 100)
		for range 8 {
			if err := w.settle(); err != nil {
				return err
			}
			if w.take(1) > 0 {
				w.release()
			}
		}
		return w.settle()
	}},
	{"head publication", worldOptions{capacity: 384, inFlight: 4, batch: 1}, func(w *world) error {
		w.add(40, 40, 40, 40, 40, 40, 40, 40, 40)
		if err := w.settle(); err != nil {
			return err
		}
		for w.take(2) > 0 {
			w.release()
			w.publish()
			if err := w.settle(); err != nil {
				return err
			}
		}
		return nil
	}},
	{"head publication, used at once", worldOptions{capacity: 256, eager: true}, func(w *world) error {
		w.add(40, 40, 40, 40, 40, 40, 40)
		if err := w.settle(); err != nil {
			return err
		}
		for w.take(2) > 0 {
			w.release()
		}
		return w.err
	}},
	{"fence during flush", worldOptions{capacity: 1024, batch: 1, inFlight: 4}, func(w *world) error {
		w.add(20, 60, 90)
		for w.send() {
		}
		for len(w.link.wire) > 0 {
			w.deliver()
		}
		w.begin() // the first flush runs
		if err := w.open(); err != nil {
			return err
		}
		return w.settle()
	}},
	{"fence during the tail's store", worldOptions{capacity: 1024, batch: 1, inFlight: 4}, func(w *world) error {
		w.add(20, 60, 90)
		for w.send() {
		}
		for len(w.link.wire) > 0 {
			w.deliver()
		}
		w.begin()
		w.end()
		w.begin() // the store of the first tail runs
		if err := w.open(); err != nil {
			return err
		}
		w.take(1)
		return w.settle()
	}},
	{"fence with messages under way", worldOptions{capacity: 1024, batch: 1, inFlight: 4}, func(w *world) error {
		w.add(20, 60, 90)
		for w.send() {
		}
		for range 4 {
			w.deliver()
		}
		if err := w.open(); err != nil {
			return err
		}
		w.add(36)
		return w.settle()
	}},
	{"fence, answers lost", worldOptions{capacity: 1024, inFlight: 1}, func(w *world) error {
		w.add(20, 60)
		w.send()
		for len(w.link.wire) > 0 {
			w.deliver()
		}
		for len(w.link.queue) > 0 {
			w.begin()
			w.end()
		}
		if err := w.open(); err != nil { // the answer is lost, the record is not
			return err
		}
		return w.settle()
	}},
	{"verify", worldOptions{capacity: 1024, verify: true}, func(w *world) error {
		w.add(20, 60)
		return w.settle()
	}},
	{"verify mismatch", worldOptions{capacity: 1024, verify: true, batch: 1}, func(w *world) error {
		w.add(20)
		if err := w.settle(); err != nil {
			return err
		}
		w.link.corruptNextWrite = true
		w.add(60, 80)
		if err := w.settle(); err != nil {
			return err
		}
		if !w.link.dead {
			return errors.New("a mismatch went through")
		}
		if err := w.open(); err != nil {
			return err
		}
		return w.settle()
	}},
	{"two fences", worldOptions{capacity: 512}, func(w *world) error {
		for range 3 {
			w.add(36, 10)
			w.send()
			w.deliver()
			if err := w.open(); err != nil {
				return err
			}
			if err := w.settle(); err != nil {
				return err
			}
			w.take(1)
			w.release()
		}
		return nil
	}},
	{"any order", worldOptions{capacity: 768, batch: 256, inFlight: 3}, anyOrder(1)},
	{"any order, verified", worldOptions{capacity: 768, batch: 256, inFlight: 3, verify: true}, anyOrder(2)},
}

// anyOrder is a long script whose order is drawn, with fences.
func anyOrder(seed uint64) func(w *world) error {
	return func(w *world) error {
		r := rand.New(rand.NewPCG(seed, 7))
		for range 4 {
			if err := w.play(r, 100, []int{0, 10, 36, 37, 100, 200}); err != nil {
				return err
			}
			if err := w.open(); err != nil {
				return err
			}
		}
		return w.settle()
	}
}

// again is what happens after a crash: recovery, a new session, a little more work.
func (s *crashScript) again(x *pmemtest.Trial, mode commitlog.Mode) error {
	w := &world{x: x, payloads: make(map[*commitlog.Entry]string), made: 1000}
	o := s.worldOptions
	w.limits(&o)
	if err := w.attach(); err != nil {
		return err
	}
	switch err := w.recover(); {
	case errors.Is(err, commitlog.ErrMagic):
		return nil // crashed while it was created
	case err != nil:
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	w.take(1)
	w.add(60)
	if err := w.settle(); err != nil {
		return err
	}
	w.take(1)
	w.release()
	return w.settle()
}

// script makes a pmemtest.Script.
func (s *crashScript) script(mode commitlog.Mode) *pmemtest.Script {
	return &pmemtest.Script{
		Name: s.name + ", " + mode.String(), Size: commitlog.RingOff + int(s.capacity), Recover: recovered,
		Run: func(x *pmemtest.Trial) error {
			o := s.worldOptions
			o.mode = mode
			w, err := newWorld(x, o)
			if err != nil {
				return err
			}
			if err := w.open(); err != nil {
				return err
			}
			return s.run(w)
		},
		Again: func(x *pmemtest.Trial) error { return s.again(x, mode) },
	}
}

// TestCrash ends everything at every store, flush and message of every script (ADVERSARY
// 19, 23, 24): what was acknowledged is recovered, what is recovered was sent.
func TestCrash(t *testing.T) {
	b := pmemtest.Budget{Images: 40, Samples: 2, Again: 600}
	if *crashAll {
		b = pmemtest.Budget{Images: -1, Samples: 64, Again: 400}
	}
	for _, s := range slices.Concat(crashScripts, moreCrashScripts, turnScripts) {
		for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
			t.Run(s.name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				r := must(pmemtest.Explore(s.script(mode), b))(t)
				t.Logf("%d acknowledged; %d moments, %d images, %d restarts", r.Acked, r.Moments, r.Images, r.Restarts)
				if r.Acked == 0 {
					t.Error("the script proves nothing")
				}
			})
		}
	}
}

// TestCrashHeader destroys, after every crash, the newer of two whole headers: what was acknowledged is recovered, or the
// log is poisoned; never is it taken for shorter (ADVERSARY 24).
func TestCrashHeader(t *testing.T) {
	for _, s := range crashScripts {
		for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
			t.Run(s.name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				script, poisoned := s.script(mode), 0
				script.Again = nil
				script.Recover = func(b []byte) ([]pmemtest.Record, error) {
					got, err := recovered(b)
					var a, z commitlog.Header
					if err != nil || a.Parse(b, commitlog.HeaderOff) != nil || z.Parse(b[commitlog.BlockSize:], commitlog.BlockSize) != nil {
						return got, err
					}
					if z.Generation > a.Generation {
						a = z
					}
					bad := slices.Clone(b)
					clear(bad[a.Slot():][:commitlog.HeaderLen])
					left, err := recovered(bad)
					if _, ok := errors.AsType[*commitlog.PoisonError](err); ok {
						poisoned++
						return got, nil
					}
					// Records that a fence has ended may come back, since that fence is forgotten.
					return slices.DeleteFunc(left, func(r pmemtest.Record) bool {
						return !slices.ContainsFunc(got, func(g pmemtest.Record) bool { return g.Seq == r.Seq && string(g.Payload) == string(r.Payload) })
					}), err
				}
				must(pmemtest.Explore(script, pmemtest.Budget{Images: 10, Samples: 2}))(t)
				if poisoned == 0 {
					t.Error("no header was missed")
				}
			})
		}
	}
}
