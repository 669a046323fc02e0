package commitlog_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// same queues n appends of size octets that all are alike: what an earlier lap has left in
// their place differs in the sequence number and the checksum alone.
func (w *world) same(n, size int) {
	for range n {
		p := strings.Repeat("s", size)
		e := &commitlog.Entry{Payload: []byte(p)}
		w.payloads[e] = p
		w.adds = append(w.adds, e)
		if err := w.prod.Add(e, false); err != nil {
			w.err = err
		}
	}
}

// restart is the consumer's process ending and coming back, while the memory stays: what it
// holds is durable then, as package pmem has it, flushed or not.
func (w *world) restart() error {
	if err := w.x.Mem.Persist(0, len(w.x.Mem.Bytes())); err != nil {
		return err
	}
	if w.link != nil {
		w.link.dead, w.link.revoked, w.link.running = true, true, nil
	}
	if err := w.attach(); err != nil {
		return err
	}
	return w.recover()
}

// place lets every Write arrive that is on the wire, and queues the rest.
func (w *world) place() {
	for len(w.link.wire) > 0 {
		w.deliver()
	}
}

// execute lets n of the queued requests begin and end.
func (w *world) execute(n int) {
	for range n {
		w.begin()
		w.end()
	}
}

// through lets everything through, to the consumer and out of the ring.
func (w *world) through() error {
	for {
		if err := w.settle(); err != nil || w.take(1) == 0 {
			return errors.Join(err, w.err)
		}
		w.release()
	}
}

// reopen is open and through.
func (w *world) reopen() error { return errors.Join(w.open(), w.through()) }

// moreCrashScripts are interleavings of rules that crashScripts have one by one.
var moreCrashScripts = []crashScript{
	{"full to the octet, then fenced", worldOptions{capacity: 256}, func(w *world) error {
		for range 2 {
			w.add(36, 36, 36, 36) // the tail is the head, one lap on
			if err := errors.Join(w.settle(), w.open()); err != nil {
				return err
			}
			w.add(36)
			if w.send() {
				return errors.New("a record is sent into a full ring")
			}
			if err := w.through(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"a filler of one unit", worldOptions{capacity: 320}, func(w *world) error {
		for range 3 {
			w.add(100, 100, 100) // 128 octets each: 64 are left at the end
			if err := errors.Join(w.settle(), w.reopen()); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"records without octets, lap for lap", worldOptions{capacity: 256, inFlight: 3, batch: 1}, func(w *world) error {
		for range 4 {
			w.same(3, 0)
			for w.send() {
			}
			w.place()
			w.execute(4) // the third is placed, not flushed
			if err := w.reopen(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"like records over torn ones", worldOptions{capacity: 512, inFlight: 2, batch: 1}, func(w *world) error {
		for range 3 {
			w.same(2, 150)
			for w.send() {
			}
			w.deliver() // and no flush, nor the rest
			if err := w.reopen(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"largest records", worldOptions{capacity: 256, verify: true}, func(w *world) error {
		for range 2 {
			w.add(100, 37, 100)
			if err := errors.Join(w.through(), w.reopen()); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"fence between the runs of a group", worldOptions{capacity: 512, verify: true}, func(w *world) error {
		w.add(228)
		if err := w.through(); err != nil {
			return err
		}
		for n := range 6 { // of two Writes, two flushes, two hashes and the tail
			w.add(100, 150, 36) // the second would cross the end, at first
			w.send()
			for range min(2+n, len(w.link.wire)) {
				w.deliver()
			}
			w.execute(n)
			w.begin()
			if err := w.reopen(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"mismatch in the second run", worldOptions{capacity: 512, verify: true}, func(w *world) error {
		w.add(210, 30)
		if err := w.through(); err != nil {
			return err
		}
		w.add(100, 200, 50) // one before the end, two behind the wrap
		w.send()
		w.deliver()
		w.link.corruptNextWrite = true
		if err := w.settle(); err != nil {
			return err
		}
		if !w.link.dead {
			return errors.New("a mismatch went through")
		}
		return w.reopen()
	}},
	{"fences without progress", worldOptions{capacity: 512}, func(w *world) error {
		w.add(100, 50)
		w.send()
		for range 4 {
			w.deliver()
			if err := w.open(); err != nil {
				return err
			}
			w.send()
		}
		w.place()
		w.execute(1)
		return errors.Join(w.open(), w.reopen(), w.open(), w.open())
	}},
	{"answers and heads of an old session", worldOptions{capacity: 384, inFlight: 2, batch: 1}, func(w *world) error {
		for range 3 {
			w.add(36, 36)
			for w.send() {
			}
			w.place()
			w.execute(2) // the first is part of the log; its answer is under way
			w.take(1)
			w.release()
			old, heads := w.link, w.heads
			if err := w.open(); err != nil {
				return err
			}
			for _, b := range old.answers {
				w.over(w.prod.Done(b))
			}
			for _, h := range heads {
				w.prod.Published(h)
			}
			if err := w.through(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"the consumer restarts, the producer lives", worldOptions{capacity: 512, inFlight: 3, batch: 1}, func(w *world) error {
		for n := range 4 {
			w.add(36, 60, 10)
			for w.send() {
			}
			for range min(2*n, len(w.link.wire)) {
				w.deliver()
			}
			w.execute(n)
			if err := errors.Join(w.restart(), w.restart(), w.reopen()); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"another producer takes over", worldOptions{capacity: 512, inFlight: 2, batch: 1}, func(w *world) error {
		w.add(36, 60, 100)
		for w.send() {
		}
		w.place()
		w.execute(1)
		w.begin() // the tail of the first is being stored
		old := w.prod
		w.prod = commitlog.NewSender(commitlog.Limits{InFlight: 2, Batch: 1 << 20}, false)
		if err := w.open(); err != nil { // what the old one has under way comes after this
			return err
		}
		w.add(70, 70, 70, 70) // in the places of those that were not acknowledged
		if err := w.settle(); err != nil {
			return err
		}
		w.prod.Lost()
		w.prod = old
		if err := w.open(); !errors.Is(err, commitlog.ErrLostRecords) {
			return fmt.Errorf("the old producer continues: %w", err)
		}
		return nil
	}},
	{"records given up in a group", worldOptions{capacity: 512}, func(w *world) error {
		for range 2 {
			w.add(36, 100, 36, 60)
			n := len(w.adds)
			w.prod.Abandon(w.adds[n-3])
			w.send()
			w.prod.Abandon(w.adds[n-1])
			w.prod.Abandon(w.adds[n-2])
			w.place()
			if err := w.reopen(); err != nil {
				return err
			}
		}
		return w.err
	}},
	{"a head beyond the durable tail", worldOptions{capacity: 384}, func(w *world) error {
		for range 3 { // in wal mode nothing but a session flushes the tail
			w.add(36, 100)
			if err := w.through(); err != nil {
				return err
			}
			w.add(36)
			w.send()
			w.place()
			w.execute(1)
			if err := errors.Join(w.open(), w.settle()); err != nil {
				return err
			}
		}
		return w.through()
	}},
	{"released one by one out of a group", worldOptions{capacity: 512}, func(w *world) error {
		for range 3 {
			w.add(30, 36, 70)
			if err := w.settle(); err != nil {
				return err
			}
			for range 3 {
				w.take(1)
			}
			ops, err := w.cons.Release(w.taken - 1)
			if err := errors.Join(err, w.do(ops), w.open()); err != nil {
				return err
			}
			w.publish()
			w.release()
		}
		return w.settle()
	}},
	{"a tail that goes along", worldOptions{capacity: 1536, segment: 78, lazyTail: 1024}, func(w *world) error {
		for range 7 { // the sixth is behind lazyTail
			w.same(1, 160)
			if err := w.through(); err != nil {
				return err
			}
		}
		w.add(36)
		w.send()
		w.place()
		return errors.Join(w.open(), w.settle())
	}},
}
