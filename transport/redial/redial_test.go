package redial

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
)

// The tests over real connections are in package transport, beside its test program.

// try makes a call for its error.
func try(ctx context.Context, r *Caller) error {
	var reply rpc.Reply
	defer reply.Release()
	return r.Do(ctx, &rpc.Call{Prog: 400_000, Vers: 1}, &reply)
}

// TestWait: who waits for a connection learns why there is none when the context or
// Patience ends, or with Close.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused by the test")
		var at []time.Duration
		start := time.Now()
		cfg := &Config{Dial: func(context.Context) (Conn, error) {
			at = append(at, time.Since(start))
			return nil, refused
		}}
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Connect(t.Context()); !errors.Is(err, refused) || len(at) != 1 {
			t.Errorf("%v, %d attempts", err, len(at))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		done := make(chan error, 8)
		for range 8 {
			go func() { done <- try(ctx, r) }()
		}
		for range 8 {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
				t.Error(err)
			}
		}
		for i := 1; i < len(at); i++ {
			most := min(defaultMinDelay<<min(i-1, 20), defaultMaxDelay)
			if d := at[i] - at[i-1]; d > most || d < most/2 {
				t.Errorf("wait %d was %v, want %v to %v", i, d, most/2, most)
			}
		}
		if len(at) < 20*60/15 {
			t.Errorf("%d attempts in 20 minutes", len(at))
		}
		go func() { done <- try(t.Context(), r) }()
		synctest.Wait()
		r.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		cfg.Patience = 10 * time.Second
		r, err = New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		err = try(t.Context(), r)
		if d := time.Since(start); !errors.Is(err, refused) || errors.Is(err, context.DeadlineExceeded) || d != cfg.Patience {
			t.Errorf("after %v: %v", d, err)
		}
		r.Close()
	})
}

func TestBackoff(t *testing.T) {
	b := backoff{least: 3, most: 20}
	for i, want := range []time.Duration{3, 6, 12, 20, 20} {
		if got := b.next(0); got != want {
			t.Errorf("wait %d is %d, want %d", i, got, want)
		}
	}
	if got := b.next(0.999); got < 10 || got > 11 {
		t.Errorf("the shortest of 20 is %d", got)
	}
	b.reset()
	if got := b.next(0); got != 3 {
		t.Errorf("after a success %d", got)
	}
}

func TestConfig(t *testing.T) {
	dial := func(context.Context) (Conn, error) { return nil, errors.New("never") }
	for i, cfg := range []Config{
		{},
		{Dial: dial, MinDelay: 2, MaxDelay: 1},
		{Dial: dial, MinDelay: -1},
		{Dial: dial, Patience: -1},
		{Dial: dial, DialTimeout: -1},
	} {
		if _, err := New(&cfg); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := New(nil); !errors.Is(err, rpc.ErrConfig) {
		t.Errorf("nil: %v", err)
	}
}

// TestPinnedCall: a call whose memory a dead connection has not let go is not sent again: two
// connections could write it.
func TestPinnedCall(t *testing.T) {
	r, err := New(&Config{Dial: func(context.Context) (Conn, error) { return nil, errors.New("never") }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	call := r.newCall(&rpc.Call{})
	if !r.maySend(call) {
		t.Error("a call that no connection has must be sent")
	}
	call.lend()
	if r.maySend(call) {
		t.Error("a call may be sent although a connection still has its memory")
	}
	r.freed(call)
	if !r.maySend(call) {
		t.Error("a call whose memory is free again must be sent")
	}
}

// stopped is a connection whose answer waits in the socket until the test reads it.
type stopped struct {
	answer  chan struct{}
	octets  uint64
	aborted error
}

func (c *stopped) Do(ctx context.Context, call *rpc.Call, _ *rpc.Reply) error {
	call.Resend.Posting(call)
	select {
	case <-c.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *stopped) Stats() rpc.Stats { return rpc.Stats{} }
func (c *stopped) Close() error     { return nil }
func (c *stopped) Err() error       { return c.aborted }
func (c *stopped) Abort(err error)  { c.aborted = err }
func (c *stopped) Received() uint64 { return c.octets }

// TestStopped: a client process that was stopped, and has the answer in its socket when it continues, does
// not take the server for silent, nor the call for lost: the timer comes late, and first. It would send
// the call again, and by then the server may have forgotten the reply.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &stopped{answer: make(chan struct{})}
		r, err := New(&Config{Dial: func(context.Context) (Conn, error) { return c, nil }, Silence: 8 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- try(t.Context(), r) }()
		synctest.Wait() // it is sent
		r.mu.Lock()
		r.watch.stop()
		r.mu.Unlock()
		time.Sleep(time.Hour)
		r.look()
		synctest.Wait()
		c.octets++
		close(c.answer)
		if err := <-done; err != nil || c.aborted != nil {
			t.Error(err, c.aborted)
		}
		if st := r.Stats(); st.Silences != 0 || st.Retransmits != 0 || st.Accepted != 1 {
			t.Errorf("%+v", st)
		}
		r.Close()
	})
}

// TestDialOutlivesItsCall: calls whose deadlines are shorter than a dial takes get a connection all the same, and a Dial
// that panics, or ends its goroutine, is an error that every call has.
func TestDialOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := &stopped{answer: make(chan struct{})}
		close(c.answer)
		r, err := New(&Config{Dial: func(ctx context.Context) (Conn, error) {
			dials++
			select {
			case <-time.After(2500 * time.Millisecond):
				return c, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var none context.Context
		for _, err := range []error{try(none, r), r.Connect(none)} {
			if !errors.Is(err, rpc.ErrConfig) {
				t.Errorf("nil context: %v", err)
			}
		}
		var errs []error
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			errs = append(errs, try(ctx, r))
			cancel()
		}
		if !errors.Is(errs[0], context.DeadlineExceeded) || !errors.Is(errs[1], context.DeadlineExceeded) || errs[2] != nil || dials != 1 {
			t.Errorf("%v, %d dials", errs, dials)
		}
		for _, dial := range []func(context.Context) (Conn, error){
			func(context.Context) (Conn, error) { panic("of the test") },
			func(context.Context) (Conn, error) { runtime.Goexit(); return nil, nil },
		} {
			r, err := New(&Config{Dial: dial})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := try(t.Context(), r); !errors.Is(err, rpc.ErrConfig) {
					t.Error(err)
				}
			}
			r.Close()
		}
	})
}

// TestCloseWhileDialing: Close ends an attempt to connect, and the calls that wait for it.
func TestCloseWhileDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		r, err := New(&Config{Dial: func(ctx context.Context) (Conn, error) {
			<-ctx.Done()
			ended = context.Cause(ctx)
			return nil, ended
		}})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- try(t.Context(), r) }()
		synctest.Wait()
		r.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		if !errors.Is(ended, context.Canceled) {
			t.Errorf("Dial ended with %v", ended)
		}
	})
}
