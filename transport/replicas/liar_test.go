package replicas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/replicas"
)

// liar is a replica that, when it lies, says something else every second time that it is read.
type liar struct {
	replicas.Replica
	lies  atomic.Bool
	reads atomic.Int64
	twist func([]byte) []byte
}

func (l *liar) Open(ctx context.Context) (replicas.Session, error) {
	s, err := l.Replica.Open(ctx)
	return &liarSession{s, l}, err
}

type liarSession struct {
	replicas.Session
	l *liar
}

func (s *liarSession) Read(ctx context.Context, visit func(*commitlog.Record) error) error {
	if !s.l.lies.Load() || s.l.reads.Add(1)%2 == 1 {
		return s.Session.Read(ctx, visit)
	}
	return s.Session.Read(ctx, func(r *commitlog.Record) error {
		lie := *r
		lie.Payload = s.l.twist(slices.Clone(r.Payload))
		return visit(&lie)
	})
}

// TestLiar: a replica whose records are others when they are read again. Nobody reads its lies, and none comes to a replica
// that is completed.
func TestLiar(t *testing.T) {
	for name, twist := range map[string]func([]byte) []byte{
		"cut off":       func(b []byte) []byte { return b[:5] },
		"other octets":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"another kind":  func(b []byte) []byte { b[0] = 5; return b },
		"another index": func(b []byte) []byte { b[8]++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var rs []replicas.Replica
			var ways []*way
			for range 3 {
				n := newNode(t, nil)
				t.Cleanup(func() { n.crash(rand.New(rand.NewPCG(1, 1))) })
				ways = append(ways, &way{n: n})
				rs = append(rs, ways[len(ways)-1])
			}
			lying := &liar{Replica: ways[2], twist: twist} // the last of those that have most is read
			rs[2] = lying
			ways[0].set(true)
			l, err := replicas.Open(ctx, rs, &replicas.Options{Retry: time.Millisecond, Step: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(ctx)
			var want []string
			for i := range 5 {
				want = append(want, fmt.Sprint("entry ", i+1))
				if _, err := l.Append(ctx, []byte(want[i])); err != nil {
					t.Fatal(err)
				}
			}
			for l.Live() != 2 {
				time.Sleep(time.Millisecond)
			}
			lying.lies.Store(true)
			ways[0].set(false)
			for ctx.Err() == nil && lying.reads.Load() < 4 && l.Live() < 3 {
				time.Sleep(time.Millisecond)
			}
			var got []string
			err = l.Read(ctx, 0, func(_ uint64, payload []byte) error { got = append(got, string(payload)); return nil })
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("read %q, %v", got, err)
			}
			for _, w := range ways {
				w.set(true)
				recs, _ := w.n.log.Read(ctx, 0, 1<<20)
				for _, r := range recs {
					if p := string(r.Payload); p[0] == 3 && !slices.Contains(want, p[17:]) || p[0] == 5 {
						t.Errorf("a lie at a replica: %q", p)
					}
				}
			}
		})
	}
}
