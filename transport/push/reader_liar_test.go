package push_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// entry is a push_entry of a liar, without a record.
type entry struct {
	seq   uint64
	epoch uint32
}

// TestReaderOfLiar: what a Reader returns has the numbers that it asks for, and epochs that never decrease. Otherwise a
// server could lead it in a circle.
func TestReaderOfLiar(t *testing.T) {
	for name, c := range map[string]struct {
		answers [][]entry
		good    int // records that are returned
	}{
		"no number":             {answers: [][]entry{{{0, 1}}}},
		"numbers wrap":          {answers: [][]entry{{{math.MaxUint64, 1}}}},
		"no epoch":              {answers: [][]entry{{{1, 0}}}},
		"epochs go back":        {answers: [][]entry{{{1, 2}, {2, 1}}}},
		"epochs go back, later": {answers: [][]entry{{{1, 2}}, {{2, 1}}}, good: 1},
		"numbers go back":       {answers: [][]entry{{{4, 1}}, {{4, 1}}}, good: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t}
			l := w.listen()
			n := 0
			ts := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
				resp.Results = xdr.AppendUint32(xdr.AppendUint32(resp.Results, 0), uint32(len(c.answers[n])))
				for _, e := range c.answers[n] {
					resp.Results = xdr.AppendUint32(xdr.AppendUint64(resp.Results, e.seq), e.epoch)
					resp.Results = xdr.AppendOpaque(resp.Results, nil)
				}
				n++
			})}
			w.serve(func() { _ = ts.Serve(l) })
			defer func() { ts.Close(); w.done[0]() }()
			w.rpc = l.Addr().String()
			r := w.reader("log", push.Secret{1}, nil)
			for range c.good {
				if rec, err := r.Next(failAfter(t)); err != nil {
					t.Fatal(rec, err)
				}
			}
			if rec, err := r.Next(failAfter(t)); err == nil {
				t.Error(rec)
			}
		})
	}
}

// TestReaderOfHasty: a server that does not wait is asked ever more seldom. Asked again at once, it made thousands of
// calls in this time.
func TestReaderOfHasty(t *testing.T) {
	w := &world{t: t}
	l := w.listen()
	var calls atomic.Int64
	ts := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		calls.Add(1)
		resp.Results = xdr.AppendUint32(xdr.AppendUint32(resp.Results, 0), 0)
	})}
	w.serve(func() { _ = ts.Serve(l) })
	defer func() { ts.Close(); w.done[0]() }()
	w.rpc = l.Addr().String()
	r := w.reader("log", push.Secret{1}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if rec, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(rec, err)
	}
	if n := calls.Load(); n == 0 || n > 30 {
		t.Errorf("%d calls", n)
	}
}

// TestReadTooLarge: whatever a client asks for, a READ has at most 2 MiB of entries (docs/push.md).
func TestReadTooLarge(t *testing.T) {
	w := start(t, &push.Server{Limits: push.Limits{Capacity: 16 << 20}})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret, MaxRecord: 8 << 20})
	appended(t, s, commitlog.Persistent, 1, strings.Repeat("x", 5<<20))
	c, err := transport.Dial(t.Context(), "tcp", w.rpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var reply rpc.Reply
	defer reply.Release()
	a := readArgs{Name: "log", Secret: secret, From: 1, Octets: math.MaxUint32}
	err = c.Do(failAfter(t), &rpc.Call{Prog: push.Program, Vers: push.Version, Proc: procRead, Args: push.Octets(&a), MaxResults: 1 << 20}, &reply)
	d := xdr.NewDecoder(reply.Results)
	if st := push.Status(d.Uint32()); err != nil || reply.Header.Err() != nil || st != push.StatusTooLarge {
		t.Error(err, reply.Header.Err(), st, len(reply.Results))
	}
}
