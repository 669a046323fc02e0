package commitlog_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// witness looks at a crash model whenever something is stored or flushed in it.
type witness struct {
	mu      sync.Mutex
	on      bool
	sent    []string // in the order of Begin, which is that of the numbers
	acked   int      // appends that have returned: a prefix, as answers come in order
	moments int
	images  int
	err     error
}

// look takes every crash of this moment. Who was told before it began must be found.
func (w *witness) look(s *pmemtest.Sim) {
	w.mu.Lock()
	on, acked := w.on && w.err == nil, w.acked
	w.mu.Unlock()
	if !on {
		return
	}
	snap := s.Told()
	w.mu.Lock()
	sent := slices.Clone(w.sent)
	w.moments++
	seed := uint64(w.moments)
	w.mu.Unlock()
	n := 0
	for im := range snap.Crashes(seed, 4) {
		if n++; n > 30 {
			break
		}
		if err := found(im.Octets(), sent, acked); err != nil {
			w.mu.Lock()
			w.err = fmt.Errorf("crash %v: %w", im, err)
			w.mu.Unlock()
			return
		}
	}
	w.mu.Lock()
	w.images += n
	w.mu.Unlock()
}

// found checks that a log holds a prefix of sent that is not shorter than acked.
func found(octets []byte, sent []string, acked int) error {
	info, err := commitlog.Inspect(bytes.NewReader(octets), int64(len(octets)), func(r *commitlog.Record) error {
		if r.Seq > uint64(len(sent)) || sent[r.Seq-1] != string(r.Payload) {
			return fmt.Errorf("record %d is %q", r.Seq, r.Payload)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case info.Poison != nil:
		return info.Poison
	case info.NextSeq <= uint64(acked):
		return fmt.Errorf("acked to %d, recovered to %d", acked, info.NextSeq-1)
	}
	return nil
}

// TestCrashEngine crashes the memory under the engine itself, at every store and flush of its
// goroutines, while appends are pipelined and the ring wraps: the order of operations on
// the wire is the order in which they are executed (ADVERSARY 19).
func TestCrashEngine(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		t.Run(mode.String(), func(t *testing.T) {
			w := new(witness)
			mem := pmemtest.NewSim(20480+1024, &pmemtest.SimOptions{Step: w.look})
			l := newTestLog(t, mem, mode)
			p := newTestProducer(t, &commitlog.ProducerOptions{Verify: mode == commitlog.Strict})
			p.Groups(3, 300)
			session(t, l, p, pipes)
			w.mu.Lock()
			w.on = true
			w.mu.Unlock()
			for round := range 12 {
				w.group(t, l, p, round)
				noErr(t, l.Release(uint64(3*round+3)))
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err != nil || w.moments < 100 {
				t.Fatal(w.err, w.moments)
			}
			t.Logf("%d moments, %d images", w.moments, w.images)
		})
	}
}
