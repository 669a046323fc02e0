package replies_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/xdr"
)

var (
	stressSeed  = flag.Uint64("stress.seed", 1, "first of eight seeds of TestStress")
	stressCalls = flag.Int("stress.calls", 2000, "calls with each seed of TestStress")
)

// spoiler makes connections that end after a random number of octets, most of them.
type spoiler struct {
	mu   sync.Mutex
	r    *rand.Rand
	made int
}

func (s *spoiler) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	end := rdmaptest.Fault{Cut: []rdmaptest.Cut{rdmaptest.CutReset, rdmaptest.CutEnd}[s.r.IntN(2)], CutAt: s.r.Int64N(4000)}
	if s.r.IntN(4) == 0 {
		end.CutAt = s.r.Int64N(300) // in the start-up, or soon after
	}
	f := rdmaptest.Faults{In: rdmaptest.Fault{MaxPiece: 1 + s.r.IntN(2000)}, Seed: s.r.Uint64()}
	switch s.r.IntN(8) {
	case 0: // late
		end.CutAt *= 10
		f.Out = end
	case 1, 2, 3:
		f.In = end
	default:
		f.Out = end
	}
	return rdmaptest.Wrap(c, f), nil
}

// Connections, those of calls and those of the log, end after any number of octets, again and again. Each call has
// run once, and after a crash each reply that was named and not given up is in the log.
func TestStress(t *testing.T) {
	for i := range uint64(8) {
		seed := *stressSeed + i
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { stress(t, seed) })
	}
}

func stress(t *testing.T, seed uint64) {
	w := start(t, &replies.Pusher{})
	s := &spoiler{r: rand.New(rand.NewPCG(seed, 41))}
	mem := sim(*stressCalls * 256)
	created(t, mem)
	c, err := replies.Open(&replies.Config{
		Memory: mem,
		Dial:   func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx, w.logs.Addr().String()) },
		Redial: redial.Config{
			Dial: func(ctx context.Context) (redial.Conn, error) {
				nc, err := s.dial(ctx, w.rawRPC)
				if err != nil {
					return nil, err
				}
				return transport.NewClient(ctx, nc, nil)
			},
			MinDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	kept := make(map[uint64]uint32) // argument by number
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := uint32(g); n < uint32(*stressCalls); n += 4 {
				seq, _, err := double(ctx, c, n)
				switch {
				case err != nil:
					t.Errorf("call %d: %v", n, err)
					return
				case seq == 0:
				case n%3 == 0:
					c.Done(seq)
				default:
					mu.Lock()
					if other, twice := kept[seq]; twice {
						t.Errorf("record %d for the calls %d and %d", seq, other, n)
					}
					kept[seq] = n
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if n := w.prog.runs.Load(); int(n) != *stressCalls {
		t.Errorf("%d calls have run %d times", *stressCalls, n)
	}
	t.Logf("%d connections, %d records", s.made, len(kept))
	if len(kept) == 0 || s.made < 10 {
		t.Errorf("%d connections, %d records: nothing was tried", s.made, len(kept))
	}
	after := open(t, pmemtest.OpenSim(mem.Told().Durable(), nil), func() string { return "127.0.0.1:1" })
	defer after.Close()
	for _, r := range after.Recovered() {
		n, named := kept[r.Seq]
		if !named {
			continue
		}
		delete(kept, r.Seq)
		if want := replies.Digest(program, 1, 1, xdr.AppendUint32(nil, n)); r.Digest != want || binary.BigEndian.Uint32(r.Reply[len(r.Reply)-4:]) != 2*n {
			t.Errorf("record %d is not of call %d", r.Seq, n)
		}
	}
	for seq, n := range kept {
		t.Errorf("record %d of call %d is lost", seq, n)
	}
}
