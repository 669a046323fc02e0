package replies_test

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// quick is a server whose replies may be Immediate Data, and its clients.
type quick struct {
	*world
	on    bool // at the server
	count atomic.Int64
}

func startQuick(t *testing.T, on bool) *quick {
	t.Helper()
	w := &world{t: t, pusher: &replies.Pusher{}}
	w.pusher.Handler = &w.prog
	logs, calls := &cuttable{Listener: listen(t)}, listen(t) // not recorded: the judge does not know these replies
	w.logs = logs
	w.pusher.Addr, w.rpc = logs.Addr().String(), calls.Addr().String()
	w.server = &transport.Server{Handler: w.pusher, Config: &transport.Config{ImmediateReplies: on, Credits: 8, NoRemoteInvalidate: true}}
	w.serve(func() { _ = w.pusher.Serve(logs) })
	w.serve(func() { _ = w.server.Serve(calls) })
	t.Cleanup(w.stop)
	return &quick{world: w, on: on}
}

func (q *quick) client(mem region.Memory) *replies.Client {
	q.t.Helper()
	var im replies.Immediates
	cfg := &transport.Config{ImmediateReplies: true, Immediate: func(n uint64, deliver func([]byte)) {
		q.count.Add(1)
		im.Immediate(n, deliver)
	}}
	c, err := replies.Open(&replies.Config{
		Memory: mem, Immediates: &im, MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
		Redial: redial.Config{
			Dial:     func(ctx context.Context) (redial.Conn, error) { return transport.Dial(ctx, "tcp", q.rpc, cfg) },
			MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
		},
	})
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Replies by Immediate Data are those of their records, with credits: many callers go on for
// ever. Without the option at the server all is as usual.
func TestImmediate(t *testing.T) {
	for _, on := range []bool{true, false} {
		q := startQuick(t, on)
		mem := sim(1 << 16)
		created(t, mem)
		c := q.client(mem)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for n := range uint32(50) {
					seq, _, err := double(t.Context(), c, n)
					if err != nil || seq == 0 {
						t.Error(seq, err)
						return
					}
					c.Done(seq)
				}
			})
		}
		wg.Wait()
		if n := q.count.Load(); (n == 800) != on || (n == 0) != !on {
			t.Errorf("server %v: %d replies by Immediate Data", on, n)
		}
		for _, size := range []uint32{5, 9000} { // a reply that needs a chunk is sent as usual
			call := rpc.Call{Prog: program, Vers: 1, Proc: 3, Args: xdr.AppendUint32(nil, size), MaxResults: 8 + int(size)}
			var reply rpc.Reply
			seq, err := c.Call(t.Context(), &call, &reply)
			if err != nil || seq == 0 || binary.BigEndian.Uint32(reply.Results) != size {
				t.Errorf("%d octets: %d, %v", size, seq, err)
			}
			c.Done(seq)
			reply.Release()
		}
		if n := q.count.Load(); on && n != 801 {
			t.Errorf("%d replies by Immediate Data, of which one needs no chunk", n-800)
		}
		_ = c.Close()
		q.stop()
	}
}

// Immediate Data overtake the record: the reply is held until it is flushed.
func TestImmediateHeld(t *testing.T) {
	q := startQuick(t, true)
	mem := &gated{Sim: sim(1 << 16)}
	created(t, mem)
	c := q.client(mem)
	if _, _, err := double(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	mem.close()
	over := make(chan error, 1)
	go func() { _, _, err := double(t.Context(), c, 2); over <- err }()
	<-mem.waiting
	for q.count.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-over:
		t.Fatalf("%v before its record was flushed", err)
	case <-time.After(20 * time.Millisecond):
	}
	mem.open()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// The connection of the log ends again and again: no reply is lost.
func TestImmediateCut(t *testing.T) {
	q := startQuick(t, true)
	mem := sim(1 << 18)
	created(t, mem)
	c := q.client(mem)
	var calls atomic.Int64
	stop := calling(t, c, func(seq uint64, _ uint32) {
		c.Done(seq)
		calls.Add(1)
	})
	for i := range int64(5) {
		q.cutLog(func() bool { return calls.Load() > 20*i })
	}
	before := calls.Load()
	for calls.Load() < before+20 {
		time.Sleep(time.Millisecond)
	}
	stop()
	if n := c.Waiting(); n > 0 {
		t.Errorf("%d replies are waited for", n)
	}
}
