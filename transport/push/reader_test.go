package push_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// failAfter fails the test if it is stuck.
func failAfter(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A log can be read while another process appends, on either rung: from any number, with epochs, again and again
// until somebody releases the records.
func TestReader(t *testing.T) {
	for _, best := range []push.Rung{push.Native, push.Append} {
		ctx := failAfter(t)
		w := start(t, &push.Server{Limits: push.Limits{Capacity: 8 << 20}})
		secret := push.NewSecret()
		cfg := &push.Config{Best: best, Secret: secret}
		s := w.dial("log", cfg)
		big := strings.Repeat("x", 1<<20)
		appended(t, s, commitlog.Persistent, 1, "one", "", big)
		s = w.dial("log", cfg) // another epoch
		appended(t, s, commitlog.Persistent, 4, "four")

		for from, want := range [][]string{{"one", "", big, "four"}, {"one", "", big, "four"}, {"", big, "four"}, {big, "four"}, {"four"}} {
			r := s.Reader(uint64(from))
			for i, payload := range want {
				rec, err := r.TryNext(ctx)
				seq := uint64(max(from, 1) + i)
				if err != nil || rec == nil || string(rec.Payload) != payload || rec.Seq != seq || rec.Epoch != uint32(1+seq/4) {
					t.Fatalf("from %d: %v %v, want %d", from, rec, err, seq)
				}
			}
			if rec, err := r.TryNext(ctx); rec != nil || err != nil {
				t.Fatal(rec, err)
			}
		}

		small := w.reader("log", secret, &push.ReaderConfig{From: 3, Octets: 1000})
		_, err := small.Next(ctx)
		is(t, err, push.StatusTooLarge)
		stranger := w.reader("log", push.Secret{1}, nil)
		_, err = stranger.Next(ctx)
		is(t, err, push.StatusRefused)
		_, err = w.reader("other", secret, nil).Next(ctx)
		is(t, err, push.StatusRefused)

		l := w.take("log", 1, "one", "", big, "four")
		noErr(t, l.Release(2))
		_, err = s.Reader(2).Next(ctx)
		if e, ok := errors.AsType[*commitlog.ReleasedError](err); !ok || e.First != 3 || e.Seq != 2 {
			t.Fatal(err)
		}
		if rec, err := s.Reader(0).Next(ctx); err != nil || rec.Seq != 3 {
			t.Fatal(rec, err)
		}
		if st := w.ps.Stats(); st.Opens != 2 {
			t.Errorf("%d sessions: a reader has begun one", st.Opens)
		}
	}
}

// What is damaged is not handed out, and its owner is told.
func TestReaderDamaged(t *testing.T) {
	ctx := failAfter(t)
	store := newMemStore()
	var mem region.Bytes
	store.wrap = func(size int) region.Memory { mem = make(region.Bytes, size); return mem }
	w := start(t, &push.Server{Store: store})
	s := w.dial("log", &push.Config{Best: push.Append})
	appended(t, s, commitlog.Placed, 1, "one", "two")
	mem[20480+64+28] ^= 1
	if rec, err := s.Reader(1).Next(ctx); err != nil || string(rec.Payload) != "one" {
		t.Fatal(rec, err)
	}
	_, err := s.Reader(2).Next(ctx)
	is(t, err, push.StatusLost)
}

func (w *world) reader(name string, secret push.Secret, cfg *push.ReaderConfig) *push.Reader {
	w.t.Helper()
	r, err := push.NewReader(w.caller(), name, secret, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// releasing is a server whose log always begins at record first.
type releasing struct {
	rpc.Caller
	first uint64
}

func (s releasing) Do(_ context.Context, _ *rpc.Call, reply *rpc.Reply) error {
	reply.Results = xdr.AppendUint64(xdr.AppendUint32(nil, uint32(push.StatusReleased)), s.first)
	return nil
}

// A server that has released a record keeps later ones: who goes on from there gets on.
func TestReleasedBackwards(t *testing.T) {
	for first := range uint64(8) {
		r, err := push.NewReader(releasing{first: first}, "log", push.Secret{}, &push.ReaderConfig{From: 5})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.TryNext(t.Context())
		if _, ok := errors.AsType[*commitlog.ReleasedError](err); err == nil || ok != (first > 5) {
			t.Errorf("from 5, kept from %d: %v", first, err)
		}
	}
}
