package rdmap

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestEndWithFlushRunning: the end of the connection waits neither for a flush nor for the goroutine
// that executes it instead of reading. What arrives after the flush is received if the watchdog is fast.
func TestEndWithFlushRunning(t *testing.T) {
	for _, limit := range []time.Duration{2 * time.Millisecond, time.Hour} {
		a, b := TcpPair(t)
		x, y := Connect(t, a, b, &Config{Startup: Startup{Extensions: verbs.ExtCommit}}, &Config{Startup: Startup{Extensions: verbs.ExtCommit}, Reading: Reading{HandlerLimit: limit}})
		mem := NewHanging()
		reg, err := y.Table().RegisterMemory(mem, region.Options{Access: enginetest.CommitRights})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			y.Serve()
			close(served)
		}()
		go x.Flush(t.Context(), reg.STag(), 0, 64, verbs.FlushPersistent)
		<-mem.Entered
		if limit < time.Hour {
			if err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("behind")}}); err != nil {
				t.Fatal(err)
			}
			if m, err := y.Recv(t.Context()); err != nil || string(m.Data) != "behind" {
				t.Fatal(m, err)
			}
		}
		y.Abort(enginetest.ErrTest)
		Within(t, "the end", x.Done())
		close(mem.Release)
		Within(t, "the end", y.Done())
		Within(t, "the return of Serve", served)
		if n := y.takeovers.Load(); n != 0 {
			t.Errorf("%d takeovers are counted as running", n)
		}
	}
}

// TestEndWithUpcallRunning: the end of the connection does not wait for an upcall that blocks.
func TestEndWithUpcallRunning(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		h := &Blocker{Release: make(chan struct{})}
		x, y := Connect(t, a, b, nil, &Config{Handler: h})
		go y.Serve()
		if err := x.Send(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		for y.upcalls.Load()&1 == 0 {
			time.Sleep(time.Millisecond)
		}
		y.Abort(enginetest.ErrTest)
		Within(t, "the end", y.Done())
		close(h.Release)
		for y.takeovers.Load() != 0 {
			time.Sleep(time.Millisecond)
		}
	})
}

// noting records how it is completed.
type noting struct {
	name string
	log  *[]string
}

func (n noting) Complete(err error) { *n.log = append(*n.log, fmt.Sprint(n.name, " ", err)) }

type notingUp struct{ noting }

func (n notingUp) CompleteUpcall(c *Conn) {
	n.Complete(nil)
	(*n.log)[len(*n.log)-1] = fmt.Sprint(n.name, " up ", c.upcalls.Load()&1)
}

// TestReadDone: work requests complete in order, the last one by an upcall if it is an UpcallCompleter, has succeeded and
// the connection is in Serve.
func TestReadDone(t *testing.T) {
	for _, r := range []struct {
		due, want string
		serving   bool
	}{
		{"U", "U up 1", true},
		{"U", "U <nil>", false},
		{"p", "p <nil>", true},
		{"pU", "p <nil>,U up 1", true},
		{"Up", "U <nil>,p <nil>", true},
		{"UV", "U <nil>,V up 1", true},
		{"U!", "U broken", true},
		{"UV!", "U <nil>,V broken", true},
	} {
		a, _ := TcpPair(t)
		c := newConn(a, nil, false)
		if r.serving {
			c.reader.Take(drive.Server)
		}
		var log []string
		for _, k := range r.due {
			n := noting{string(k), &log}
			switch k {
			case '!':
				c.rcv.Due[len(c.rcv.Due)-1].Err = errors.New("broken")
			case 'p':
				c.rcv.Due = append(c.rcv.Due, engine.Completion{Done: n})
			default:
				c.rcv.Due = append(c.rcv.Due, engine.Completion{Done: notingUp{n}})
			}
		}
		if err := c.readDone(new(buf.Staging)); err != nil || len(c.rcv.Due) != 0 || c.upcalls.Load()&1 != 0 {
			t.Errorf("%s: %v, %d left, %d", r.due, err, len(c.rcv.Due), c.upcalls.Load())
		}
		if want := strings.Split(r.want, ","); !slices.Equal(log, want) {
			t.Errorf("%s: %q, want %q", r.due, log, want)
		}
	}
}

// TestWatchdogPace: the watchdog looks often only while upcalls are running, and for a while after it took the role from one.
func TestWatchdogPace(t *testing.T) {
	a, b := TcpPair(t)
	h := &Blocker{Release: make(chan struct{})}
	x, y := Connect(t, a, b, nil, &Config{Handler: h}) // without the watchdog of the process
	go y.Serve()
	w := &watchdog{c: y, t: drive.NewTicker(watchdogRest, watchdogTick, false)}
	look := func(want time.Duration) {
		t.Helper()
		if w.Tick(); w.t.Period() != want {
			t.Fatalf("the next look is not in %v", want)
		}
	}
	look(watchdogRest)
	for range 2 {
		if err := x.Send(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		before := y.Stats().Takeovers
		for y.upcalls.Load()&1 == 0 {
			time.Sleep(time.Millisecond)
		}
		look(watchdogTick)
		for range watchdogAlert {
			look(watchdogTick) // the first look takes the role
		}
		look(watchdogRest)
		if n := y.Stats().Takeovers - before; n != 1 {
			t.Fatalf("%d takeovers", n)
		}
	}
	close(h.Release)
	for range 2 {
		if _, err := x.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
