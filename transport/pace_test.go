package transport_test

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Procedures of paced. The word of their arguments is their class.
const (
	paceHere  = 1 // never blocks
	paceDisk  = 2 // may block, and takes 2 ms of class slowClass
	paceHangs = 3 // may block, and does until the test ends it

	slowClass = 9
)

// paced answers with the number of the goroutine that runs the call.
type paced struct {
	hung    chan struct{} // one for each call that hangs
	release chan struct{}
}

func (paced) Describe(req *rpc.Request) rpc.Traits {
	d := xdr.NewDecoder(req.Args)
	return rpc.Traits{Blocks: req.Proc != paceHere, Class: d.Uint32()}
}

func (p paced) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Proc == procNull: // which asks for the grant
		return
	case req.Proc == paceHangs:
		p.hung <- struct{}{}
		<-p.release
	case req.Proc == paceDisk && p.Describe(req).Class == slowClass:
		time.Sleep(2 * time.Millisecond) // a disk
	}
	resp.Results = append(resp.Results, goroutine()...)
}

// goroutine returns the number of the running goroutine.
func goroutine() []byte {
	b := make([]byte, 64)
	return bytes.Fields(b[:runtime.Stack(b, false)])[1]
}

// newPaced serves p over RDMA or record-marked TCP.
func newPaced(t *testing.T, network string, cfg *transport.Config) (p paced, s *transport.Server, do func(proc, class uint32) string) {
	t.Helper()
	p = paced{hung: make(chan struct{}, 100), release: make(chan struct{})}
	how := map[string]func(*transport.Server, net.Listener) error{"rdma": overRDMA, "tcp": overTCP}[network]
	s, addr := served(t, how, p, cfg)
	c := connect(t, network, addr, nil)
	t.Cleanup(func() {
		select {
		case <-p.release:
		default:
			close(p.release)
		}
	})
	return p, s, func(proc, class uint32) string {
		t.Helper()
		var r rpc.Reply
		defer r.Release()
		if err := c.Do(testCtx(t), &rpc.Call{Prog: 400200, Vers: 1, Proc: proc, Args: xdr.AppendUint32(nil, class)}, &r); err != nil {
			t.Error(err)
		}
		return string(r.Results)
	}
}

// Calls that may block run in the goroutine that reads as long as their likes are short, and their
// likes are those of their class.
func TestPace(t *testing.T) {
	for _, network := range []string{"rdma", "tcp"} {
		t.Run(network, func(t *testing.T) {
			// So much that a busy machine does not make short calls slow ones; 2 ms are more than an eighth.
			_, _, do := newPaced(t, network, &transport.Config{Reading: transport.Reading{HandlerLimit: 10 * time.Millisecond}})
			here := do(paceHere, 0)
			if got := do(paceDisk, 1); got != here {
				t.Errorf("a short call ran in goroutine %s, not in %s, which reads", got, here)
			}
			for range 30 {
				do(paceDisk, slowClass)
			}
			here = do(paceHere, 0)
			if got := do(paceDisk, slowClass); got == here {
				t.Error("a call of 2 ms runs in the goroutine that reads")
			}
			if got := do(paceDisk, 1); got != here {
				t.Error("a short call of another class does not run in the goroutine that reads")
			}
		})
	}
}

// Without a watchdog no call that may block runs in the goroutine that reads.
func TestPaceWithoutWatchdog(t *testing.T) {
	for _, network := range []string{"rdma", "tcp"} {
		t.Run(network, func(t *testing.T) {
			_, _, do := newPaced(t, network, &transport.Config{Reading: transport.Reading{HandlerLimit: -1}})
			if here := do(paceHere, 0); do(paceDisk, 1) == here {
				t.Error("a call that may block runs in the goroutine that reads")
			}
		})
	}
}

// A system call that hangs keeps nobody waiting, nor do those after it: they get goroutines of their
// own at once, and only the first one that of the watchdog.
func TestPaceHung(t *testing.T) {
	for _, network := range []string{"rdma", "tcp"} {
		t.Run(network, func(t *testing.T) {
			p, s, do := newPaced(t, network, &transport.Config{Reading: transport.Reading{HandlerLimit: time.Millisecond}})
			do(paceHere, 0) // brings credits
			const hung = 20
			var wg sync.WaitGroup
			before := s.Stats().Takeovers // and not those of short calls, which come about on a busy machine
			for range hung {
				wg.Go(func() { do(paceHangs, 1) })
				<-p.hung
			}
			n := s.Stats().Takeovers - before
			for range 10 {
				do(paceHere, 0)
				do(paceDisk, 1)
			}
			if n != 1 {
				t.Errorf("%d takeovers for %d calls that hang, want 1", n, hung)
			}
			close(p.release)
			wg.Wait()
		})
	}
}
