package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Appends of many goroutines, through a ring that is much smaller than all of them: each
// comes out once, in the order of the numbers, with the payload whose append got that number.
func TestAppend(t *testing.T) {
	onWires(t, func(t *testing.T, dial func() (a, b net.Conn)) {
		for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
			for _, verify := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v,verify=%v", mode, verify), func(t *testing.T) {
					l := newTestLog(t, sim(4096), mode)
					p := newTestProducer(t, &commitlog.ProducerOptions{Verify: verify})
					p.Groups(2, 1000)
					session(t, l, p, dial)
					const workers, each = 4, 12
					var mu sync.Mutex
					sent := make(map[uint64]string)
					var wg sync.WaitGroup
					for w := range workers {
						wg.Go(func() {
							for i := range each {
								payload := strings.Repeat(fmt.Sprintf("%d/%d ", w, i), i*7)
								r, err := p.Append(t.Context(), []byte(payload))
								if err != nil || r.Level != commitlog.Persistent {
									t.Error(r, err)
									return
								}
								mu.Lock()
								sent[r.Seq] = payload
								mu.Unlock()
							}
						})
					}
					got := make(map[uint64]string)
					for seq := uint64(1); seq <= workers*each; seq++ {
						rec, err := l.Next(t.Context())
						if err != nil || rec.Seq != seq {
							t.Fatalf("%+v %v, want record %d", rec, err, seq)
						}
						got[seq] = string(rec.Payload)
						if seq%3 == 0 {
							noErr(t, l.Release(seq))
						}
					}
					wg.Wait()
					for seq, payload := range sent {
						if got[seq] != payload {
							t.Errorf("record %d: %q, appended %q", seq, got[seq], payload)
						}
					}
				})
			}
		}
	})
}

// Without Immediate Data the producer reads the head.
func TestBackPressureWithoutImmediate(t *testing.T) {
	l := newTestLog(t, sim(256), commitlog.WAL)
	p := newTestProducer(t, nil)
	c, s := connect(t, p, pipes, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}})
	a := must(l.Advertise(t.Context(), s))(t)
	noErr(t, p.Open(c, a))
	var pending []*commitlog.Pending
	for range 6 {
		e := must(p.Begin(make([]byte, 100)))(t)
		pending = append(pending, e)
	}
	for seq := range uint64(6) {
		rec, err := l.Next(t.Context())
		if err != nil || rec.Seq != seq+1 {
			t.Fatal(rec, err)
		}
		noErr(t, l.Release(rec.Seq))
	}
	for _, e := range pending {
		must(e.Wait(t.Context()))(t)
	}
}

// A full log makes appends wait; one that is given up was never sent, one that is under
// way is in doubt.
func TestGiveUp(t *testing.T) {
	l := newTestLog(t, sim(256), commitlog.WAL)
	p := newTestProducer(t, nil)
	session(t, l, p, pipes)
	for range 2 {
		must(p.Append(t.Context(), make([]byte, 100)))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := must(p.Begin([]byte("given up")))(t)
	cancel()
	if _, err := e.Wait(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, commitlog.ErrInDoubt) {
		t.Fatal(err)
	}
	take(t, l, 1, string(make([]byte, 100)), string(make([]byte, 100)))
	noErr(t, l.Release(2))
	if r, err := p.Append(t.Context(), []byte("next")); err != nil || r.Seq != 3 {
		t.Fatal(r, err)
	}
	take(t, l, 3, "next")
}

// Opening a session while one flush of the old one runs and more is queued: the running
// one is waited for, nothing queued is executed, and the producer sends again what the
// answer says, no more and no less (ADVERSARY 24).
func TestFence(t *testing.T) {
	onWires(t, func(t *testing.T, dial func() (a, b net.Conn)) {
		mem, f := faulty(4096)
		l := newTestLog(t, mem, commitlog.WAL)
		p := newTestProducer(t, nil)
		p.Groups(4, 1)
		session(t, l, p, dial)
		must(p.Append(t.Context(), []byte("before")))(t)
		entered, release := f.Hang(pmem.OpPersist)
		var pending []*commitlog.Pending
		for _, s := range []string{"one", "two", "three", "four", "five"} {
			e := must(p.Begin([]byte(s)))(t)
			pending = append(pending, e)
		}
		<-entered // the flush of "one" runs, two are queued behind it

		c2, s2 := connect(t, p, dial, nil)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, err := l.Advertise(short, s2); !errors.Is(err, region.ErrPinned) {
			t.Fatal("a session while the old one is flushing:", err)
		}
		release()
		a := must(l.Advertise(t.Context(), s2))(t)
		if a.Epoch != 2 || a.NextSeq != 2 || a.Tail != 64 {
			t.Errorf("%+v: the fenced producer has moved the tail", a)
		}
		noErr(t, p.Open(c2, a))
		for i, e := range pending {
			if r, err := e.Wait(t.Context()); err != nil || r.Seq != uint64(i+2) {
				t.Error(r, err)
			}
		}
		take(t, l, 1, "before", "one", "two", "three", "four", "five")
	})
}

// After a restart everything is there that was acknowledged and not released.
func TestRestart(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		mem := sim(4096)
		noErr(t, commitlog.Create(mem, &commitlog.Options{Mode: mode}))
		l := must(commitlog.Open(mem))(t)
		p := newTestProducer(t, &commitlog.ProducerOptions{Verify: true})
		c, _ := session(t, l, p, pipes)
		for _, s := range []string{"a", "b", "c"} {
			must(p.Append(t.Context(), []byte(s)))(t)
		}
		take(t, l, 1, "a", "b")
		noErr(t, l.Release(1))
		noErr(t, l.Close(t.Context()))
		c.Close()
		l = openLog(t, pmemtest.OpenSim(mem.Told().Durable(), nil)) // what is sure to be there
		if i := l.Info(); i.HeadSeq != 2 || i.NextSeq != 4 || i.Epoch != 1 || i.Mode != mode {
			t.Errorf("%+v", i)
		}
		session(t, l, p, pipes)
		if r, err := p.Append(t.Context(), []byte("d")); err != nil || r.Seq != 4 {
			t.Error(r, err)
		}
		take(t, l, 2, "b", "c", "d")
	}
}

// Readers get copies.
func TestCopies(t *testing.T) {
	mem := sim(512)
	l := newTestLog(t, mem, commitlog.WAL)
	p := newTestProducer(t, nil)
	session(t, l, p, pipes)
	must(p.Append(t.Context(), []byte("payload")))(t)
	r := must(l.Next(t.Context()))(t)
	copy(mem.Bytes()[20480:], make([]byte, 64))
	if string(r.Payload) != "payload" {
		t.Errorf("%q", r.Payload)
	}
}

// Room that is made while a session is being opened is told to nobody: the producer finds it.
func TestReleasedBetweenSessions(t *testing.T) {
	for _, where := range []string{"connection", "process", "connection, tried", "process, tried"} {
		t.Run(where, func(t *testing.T) {
			l := newTestLog(t, sim(256), commitlog.WAL)
			p := newTestProducer(t, nil)
			session(t, l, p, pipes)
			full := strings.Repeat("x", 100)
			for range 2 { // 128 octets each
				must(p.Append(t.Context(), []byte(full)))(t)
			}
			c, s := connect(t, p, pipes, nil)
			prep, err := l.Prepare(t.Context(), commitlog.Instance{})
			noErr(t, err)
			take(t, l, 1, full, full)
			noErr(t, l.Release(2))
			if strings.HasPrefix(where, "process") {
				err = prep.Local(p)
			} else if a, aerr := prep.Attach(s); aerr == nil {
				err = p.Open(c, a)
			} else {
				err = aerr
			}
			noErr(t, err)
			if strings.HasSuffix(where, "tried") {
				untilRoom(t, p, full)
				return
			}
			must(p.Append(t.Context(), []byte(full)))(t)
		})
	}
}

// untilRoom tries to append until there is room.
func untilRoom(t *testing.T, p *commitlog.Producer, payload string) {
	t.Helper()
	e, err := p.TryBegin([]byte(payload))
	for errors.Is(err, commitlog.ErrFull) && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
		e, err = p.TryBegin([]byte(payload))
	}
	if err == nil {
		_, err = e.Wait(t.Context())
	}
	noErr(t, err)
}
