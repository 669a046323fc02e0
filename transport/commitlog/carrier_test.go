package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// echoing carries records to a log of this process, by its local producer, and fails after
// a few of them.
type echoing struct {
	s      *commitlog.Prepared
	p      *commitlog.Producer
	seq    uint64
	left   int // records until it fails; -1: it does not
	failed chan struct{}
}

var errCarrier = errors.New("carrier failed")

func (c *echoing) Carry(ctx context.Context, seq uint64, payloads [][]byte) (uint64, error) {
	if seq != c.seq {
		return 0, c.fail(fmt.Errorf("records from %d on, %d are there", seq, c.seq-1))
	}
	for _, p := range payloads {
		if c.left == 0 {
			return 0, c.fail(errCarrier)
		}
		c.left--
		r, err := c.p.Append(ctx, p)
		if err != nil {
			return 0, c.fail(err)
		}
		if r.Seq != c.seq {
			return 0, c.fail(fmt.Errorf("record %d, want %d", r.Seq, c.seq))
		}
		c.seq++
	}
	return c.s.Head(), nil
}

func (c *echoing) Head(context.Context) (uint64, error) { return c.s.Head(), nil }

func (c *echoing) fail(err error) error {
	close(c.failed)
	return err
}

// carry opens a session of p by a carrier.
func carry(t *testing.T, ctx context.Context, l *commitlog.Log, p *commitlog.Producer, rnd *rand.Rand) *echoing {
	t.Helper()
	s, err := l.Prepare(t.Context(), commitlog.Instance{})
	if err != nil {
		t.Fatal(err)
	}
	a := s.Answer()
	c := &echoing{s: s, p: newTestProducer(t, nil), seq: a.NextSeq, left: -1, failed: make(chan struct{})}
	if rnd != nil {
		c.left = rnd.IntN(20)
	}
	if err := s.Local(c.p); err != nil {
		t.Fatal(err)
	}
	if _, err := p.OpenCarrier(ctx, c, &a); err != nil {
		t.Fatal(err)
	}
	return c
}

// Records go by a carrier that fails again and again, through a ring much smaller than all
// of them: each is there once, in order, with its number.
func TestCarrier(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	l := newTestLog(t, sim(4096), commitlog.WAL)
	p := newTestProducer(t, &commitlog.ProducerOptions{Batch: 1500, InFlight: 3})
	const workers, each = 3, 40
	sent := make(map[uint64]string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				payload := fmt.Sprintf("%d/%d %s", w, i, make([]byte, i*20%700))
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
	consumed := make(chan struct{})
	go func() {
		defer close(consumed)
		for seq := uint64(1); seq <= workers*each; seq++ {
			r, err := l.Next(t.Context())
			if err != nil || r.Seq != seq {
				t.Error(r, err)
				return
			}
			got[seq] = string(r.Payload)
			if err := l.Release(seq); err != nil {
				t.Error(err)
			}
		}
	}()
	for sessions := 0; ; sessions++ {
		ctx, cancel := context.WithCancel(t.Context())
		c := carry(t, ctx, l, p, rnd)
		select {
		case <-c.failed:
		case <-consumed:
			wg.Wait()
			cancel()
			if sessions < 2 {
				t.Errorf("%d sessions", sessions)
			}
			for seq, payload := range sent {
				if got[seq] != payload {
					t.Errorf("record %d: %q, appended %q", seq, got[seq], payload)
				}
			}
			return
		case <-time.After(20 * time.Second):
			t.Fatal("stuck")
		}
		cancel()
	}
}

// A session that was prepared has one producer, until another is prepared.
func TestPrepared(t *testing.T) {
	l := newTestLog(t, sim(4096), commitlog.WAL)
	one, err := l.Prepare(t.Context(), commitlog.Instance{})
	if err != nil {
		t.Fatal(err)
	}
	p := newTestProducer(t, nil)
	plain, s := connect(t, p, pipes, nil)
	if _, err := one.Attach(plain); err != nil { // of either side; it has the extension
		t.Fatal(err)
	}
	if _, err := one.Attach(s); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("twice:", err)
	}
	if err := one.Local(p); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("twice:", err)
	}
	two, err := l.Prepare(t.Context(), commitlog.Instance{})
	if err != nil {
		t.Fatal(err)
	}
	three, err := l.Prepare(t.Context(), commitlog.Instance{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := two.Answer(), three.Answer(); a.Epoch != 2 || b.Epoch != 3 || a.RingSTag != 0 || !b.Persistent {
		t.Error(a, b)
	}
	if _, err := two.Attach(s); !errors.Is(err, commitlog.ErrFenced) {
		t.Error("fenced:", err)
	}
	a, err := three.Attach(s)
	if err != nil || a.RingSTag == 0 {
		t.Fatal(a, err)
	}
}
