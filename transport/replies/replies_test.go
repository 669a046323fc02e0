package replies_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A client whose memory does not flush gets no reply of a procedure that is pushed, and
// all others at once; when it flushes, all of them. What a crash leaves at that moment has
// the replies, with their keys.
func TestHold(t *testing.T) {
	w := start(t, &replies.Pusher{})
	mem, f := faulty(1 << 16)
	created(t, mem)
	c := w.open(mem)
	if seq, _, err := double(t.Context(), c, 1); seq != 1 || err != nil {
		t.Fatal(seq, err)
	}
	entered, release := f.Hang(pmem.OpPersist)
	type result struct {
		n, xid uint32
		seq    uint64
		err    error
	}
	results := make(chan result, 3)
	for n := range uint32(3) {
		go func() {
			seq, xid, err := double(t.Context(), c, n)
			results <- result{n, xid, seq, err}
		}()
	}
	<-entered // a record is being flushed: the calls have run
	var reply rpc.Reply
	for runs := uint32(0); runs < 4; {
		seq, err := c.Call(t.Context(), &rpc.Call{Prog: program, Vers: 1, Proc: 2}, &reply)
		if seq != 0 || err != nil {
			t.Fatal(seq, err)
		}
		d := xdr.NewDecoder(reply.Results)
		runs = d.Uint32()
	}
	reply.Release()
	select {
	case r := <-results:
		t.Fatalf("%+v before its record was flushed", r)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	got := make(map[uint64]result)
	for range 3 {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		got[r.seq] = r
	}
	after, err := replies.Open(&replies.Config{Memory: pmemtest.OpenSim(mem.Told().Durable(), nil), Redial: redial.Config{
		Dial: func(context.Context) (redial.Conn, error) { return nil, errors.New("none") },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	found := after.Recovered()
	if len(found) != 4 {
		t.Fatalf("%d replies", len(found))
	}
	for _, r := range found[1:] {
		g := got[r.Seq]
		want := replies.Digest(program, 1, 1, xdr.AppendUint32(nil, g.n))
		d := xdr.NewDecoder(r.Reply)
		var h xdr.ReplyHeader
		if err := h.Parse(&d); err != nil || h.XID != g.xid || h.Err() != nil || d.Uint32() != 2*g.n {
			t.Errorf("reply %x", r.Reply)
		}
		if r.XID != g.xid || r.Epoch != c.Epoch() || r.Prog != program || r.Vers != 1 || r.Proc != 1 || r.Digest != want {
			t.Errorf("%+v, of %+v", r, g)
		}
	}
	if after.Epoch() <= c.Epoch() {
		t.Errorf("epoch %d after %d", after.Epoch(), c.Epoch())
	}
}

// Results of any form are in the record as one message; a handler's panic, and what is too
// large for the log, is answered without.
func TestForms(t *testing.T) {
	w := start(t, &replies.Pusher{})
	mem := sim(1 << 16)
	created(t, mem)
	c := w.open(mem)
	for _, test := range []struct {
		proc, n uint32
		named   bool
	}{{3, 0, true}, {3, 5, true}, {3, 9000, true}, {3, 60_000, false}, {4, 0, false}, {1, 1, true}} {
		var reply rpc.Reply
		call := rpc.Call{Prog: program, Vers: 1, Proc: test.proc, Args: xdr.AppendUint32(nil, test.n), MaxResults: 8 + int(test.n)}
		seq, err := c.Call(t.Context(), &call, &reply)
		if err != nil || (seq != 0) != test.named {
			t.Fatalf("procedure %d of %d octets: record %d, %v", test.proc, test.n, seq, err)
		}
		if test.named && !bytes.Contains(mem.Bytes(), reply.Results) {
			t.Errorf("procedure %d of %d octets is not in the log", test.proc, test.n)
		}
		reply.Release()
	}
	if n := w.prog.runs.Load(); n != 1 {
		t.Error(n)
	}
}

// A log that is full takes no replies, and keeps no caller waiting; what is Done makes room.
func TestFull(t *testing.T) {
	t.Parallel() // it waits
	w := start(t, &replies.Pusher{})
	mem := sim(1 << 12)
	created(t, mem)
	c := w.open(mem)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seqs []uint64
	for {
		seq, _, err := double(ctx, c, 1)
		if err != nil {
			t.Fatalf("after %d records: %v", len(seqs), err)
		}
		if seq == 0 {
			break
		}
		seqs = append(seqs, seq)
	}
	if len(seqs) < 10 {
		t.Errorf("the log is full of %d replies", len(seqs))
	}
	for _, seq := range seqs {
		c.Done(seq)
	}
	for seq := uint64(0); seq == 0; {
		var err error
		if seq, _, err = double(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		c.Done(seq)
	}
}

// A server that does not have the program, or takes no log, or whose log address is dead,
// answers all the same; the reply has no number.
func TestWithout(t *testing.T) {
	w := start(t, &replies.Pusher{Addr: "127.0.0.1:1"})
	mem := sim(1 << 14)
	created(t, mem)
	c := w.open(mem)
	if seq, _, err := double(t.Context(), c, 1); seq != 0 || err != nil {
		t.Error(seq, err)
	}
	if err := c.Offered(); err == nil || errors.Is(err, replies.ErrNoProgram) {
		t.Error("where the log's address is dead:", err)
	}
	_ = c.Close()
	plain := &transport.Server{Handler: rpc.HandlerFunc(func(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Prog == replies.Program {
			resp.Stat = xdr.ProgUnavail
			return
		}
		w.prog.ServeRPC(ctx, req, resp)
	})}
	defer plain.Close()
	l := listen(t)
	w.serve(func() { _ = plain.Serve(l) })
	w.rpc = l.Addr().String()
	c = w.open(pmemtest.OpenSim(mem.Bytes(), nil))
	defer c.Close()
	if seq, _, err := double(t.Context(), c, 1); seq != 0 || err != nil {
		t.Error(seq, err)
	}
	if err := c.Offered(); !errors.Is(err, replies.ErrNoProgram) {
		t.Error("where the program is not there:", err)
	}
}
