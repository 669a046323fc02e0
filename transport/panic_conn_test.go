package transport_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// vase is a Binding that panics on the arguments or results of procedure 7.
type vase struct{}

func (vase) Eligible(_, _, _ uint32) (arg, result bool)                { return false, false }
func (vase) FindArg(_, _, _ uint32, _ []byte) (pos, n int, ok bool)    { return 0, 0, false }
func (vase) FindResult(_, _, _ uint32, _ []byte) (pos, n int, ok bool) { return 0, 0, false }
func (vase) MaxResults(_, _, proc uint32, _ []byte) (int, int, bool) {
	if proc == 7 {
		panic("the vase is broken")
	}
	return 0, 0, false
}

// fussy is a Binding that panics when it is asked what is eligible for procedure 7.
type fussy struct{ vase }

func (fussy) Eligible(_, _, proc uint32) (arg, result bool) {
	if proc == 7 {
		panic("the vase is broken")
	}
	return false, false
}

// TestRecordPanicEndsItsConnection: a panic on what a record says ends its connection, is counted, and ends no other.
func TestRecordPanicEndsItsConnection(t *testing.T) {
	s := &transport.Server{
		Config:  &transport.Config{Logger: zap.NewNop(), Binding: vase{}},
		Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {}),
	}
	defer s.Close()
	ends := make(chan error, 2)
	dial := func() *transport.StreamClient {
		a, b := rdmaptest.Pipe()
		go func() { ends <- s.ServeStreamConn(b) }()
		c := must(transport.NewStreamClient(context.Background(), a, nil))(t)
		return c
	}
	x, y := dial(), dial()
	defer y.Close()
	defer x.Close()
	var r rpc.Reply
	if err := x.Do(t.Context(), &rpc.Call{Prog: 400100, Vers: 1, Proc: 7}, &r); err == nil {
		t.Error("answered")
	}
	if err := <-ends; !errors.Is(err, verbs.ErrPanic) {
		t.Errorf("ended with %v", err)
	}
	if err := y.Do(t.Context(), &rpc.Call{Prog: 400100, Vers: 1}, &r); err != nil {
		t.Errorf("the other: %v", err)
	}
	r.Release()
	waitFor(t, "the reply is sent", func() bool { return s.Stats().InFlight == 0 })
	if got := s.Stats(); got.Panics != 1 || got.Held != 0 {
		t.Errorf("%d panics, %d octets held", got.Panics, got.Held)
	}
}

// fragile is a connection that panics when it is read or written for the time'th time.
type fragile struct {
	net.Conn
	reads, writes atomic.Int32
}

func (f *fragile) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.reads.Add(-1) == 0 {
		panic("the vase is broken")
	}
	return n, err
}

func (f *fragile) Write(p []byte) (int, error) {
	if f.writes.Add(-1) == 0 {
		panic("the vase is broken")
	}
	return f.Conn.Write(p)
}

// panics returns with what f panics.
func panics(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// TestStreamClientPanic: a panic of the goroutine that reads ends the connection of a StreamClient, and all calls; one of
// a call that is written goes to its caller, and leaves no other waiting for its turn.
func TestStreamClientPanic(t *testing.T) {
	for _, reads := range []bool{true, false} {
		a, b := rdmaptest.Pipe()
		f := &fragile{Conn: a}
		if reads {
			f.reads.Store(1)
		} else {
			f.writes.Store(1)
		}
		s := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
		served := make(chan error, 1)
		go func() { served <- s.ServeStreamConn(b) }()
		c, err := transport.NewStreamClient(context.Background(), f, nil)
		noErr(t, err)
		var r rpc.Reply
		v := panics(func() { err = c.Do(t.Context(), &rpc.Call{Prog: 400100, Vers: 1}, &r) })
		if reads && !errors.Is(err, verbs.ErrPanic) || !reads && v == nil {
			t.Errorf("reads %v: %v, panic %v", reads, err, v)
		}
		if err := c.Do(t.Context(), &rpc.Call{Prog: 400100, Vers: 1}, &r); !errors.Is(err, verbs.ErrPanic) {
			t.Errorf("reads %v: the next call: %v", reads, err)
		}
		c.Close()
		s.Close()
		<-served
	}
}

// shy is a context that panics when it is asked once more than n times.
type shy struct {
	context.Context
	n *atomic.Int32
}

func (s shy) Err() error {
	if s.n.Add(-1) == 0 {
		panic("the vase is broken")
	}
	return s.Context.Err()
}

// TestClientPanic: a panic of the caller's binding, trace or context ends the RDMA connection. Nobody waits for what it
// has held.
func TestClientPanic(t *testing.T) {
	broken := func(uint32, int) { panic("the vase is broken") }
	for name, test := range map[string]struct {
		trace   *rpc.Trace
		binding chunks.Binding
		asked   int32
	}{
		"binding":         {binding: fussy{}},
		"trace of a call": {trace: &rpc.Trace{Sent: func(uint32, rpcrdma.Form, int) { panic("the vase is broken") }}},
		"trace, reply":    {trace: &rpc.Trace{Replied: broken}},
		"context, second": {asked: 2}, // before the first time nothing has begun
		"context, third":  {asked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits, if its connection stays
			s := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
			a, b := rdmaptest.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.ServeConn(b) }()
			c, err := transport.NewClient(t.Context(), a, &transport.Config{Logger: zap.NewNop(), Trace: test.trace, Binding: test.binding})
			noErr(t, err)
			var ctx context.Context = t.Context()
			if test.asked > 0 {
				n := new(atomic.Int32)
				n.Store(test.asked)
				ctx = shy{ctx, n}
			}
			var r rpc.Reply
			call := &rpc.Call{Prog: 400100, Vers: 1, Proc: 7}
			if test.binding != nil {
				call.Args, call.Item, call.ItemPos = []byte{0, 0, 0, 8}, make([]byte, 8), 4
			}
			v := panics(func() { err = c.Do(ctx, call, &r) })
			if v == nil && !errors.Is(err, verbs.ErrPanic) && (err != nil || name != "trace, reply") { // that has come
				t.Errorf("%v, no panic", err)
			}
			next, cancel := context.WithTimeout(t.Context(), patience)                // or a connection that stays would hang the test
			panics(func() { err = c.Do(next, &rpc.Call{Prog: 400100, Vers: 1}, &r) }) // the trace may panic again
			cancel()
			if v == nil && !errors.Is(err, verbs.ErrPanic) {
				t.Errorf("the next call: %v", err)
			}
			if c.Close(); !errors.Is(c.Err(), verbs.ErrPanic) {
				t.Errorf("the connection has ended with %v", c.Err())
			}
			s.Close()
			<-served
		})
	}
}
