package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestJoin: small messages posted one after the other share a room, and are counted, numbered and
// delivered as if they did not.
func TestJoin(t *testing.T) {
	a := newEngine(engineConfig{ord: 1})
	b := newEngine(engineConfig{ird: 1, recvs: 1000})
	mem, reg := b.register(t, 1000, region.RemoteWrite)
	var want []string
	var d rdmaptest.Done
	send := func(n int, last verbs.Completer) {
		for i := range n {
			text := fmt.Sprint("message ", len(want))
			want = append(want, text)
			wr := verbs.WR{Op: verbs.OpSend, Head: []byte(text[:3]), Body: []byte(text[3:])}
			if i == n-1 {
				wr.Done = last
			}
			a.post(wr)
		}
	}
	send(40, &d)
	send(engine.MaxCoalesced+1, nil)
	a.post(verbs.WR{Op: verbs.OpSendSE})
	want = append(want, "")
	for i := range 100 {
		a.post(verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), TO: uint64(i * 10), Body: []byte{byte(i), byte(i)}})
	}
	long := slices.Repeat([]byte("long"), 800) // several FPDUs
	a.post(verbs.WR{Op: verbs.OpSend, Body: long}, verbs.WR{Op: verbs.OpSend, Body: []byte("behind")}, verbs.WR{Op: verbs.OpSend, Body: long})
	want = append(want, string(long), "behind", string(long))
	if n := a.snd.Requests().Len(); n != 8 {
		t.Errorf("%d items", n)
	}
	exchange(a, b)
	if a.err != nil || b.err != nil || d.N != 1 || d.Err != nil || a.snd.Copied != 0 {
		t.Fatalf("%v, %v, %+v, %d octets left", a.err, b.err, d, a.snd.Copied)
	}
	for i, m := range b.got {
		if i < len(want) && string(m.Data) != want[i] {
			t.Fatalf("message %d: %q", i, m.Data)
		}
	}
	for i := range 100 {
		if mem[i*10] != byte(i) || mem[i*10+1] != byte(i) || mem[i*10+2] != 0 {
			t.Fatalf("Write %d: %v", i, mem[i*10:i*10+10])
		}
	}
	out, in := &a.wk.Out, &b.rcv.In
	if len(b.got) != len(want) || out.Messages != in.Messages || out.FPDUs != in.FPDUs ||
		out.WriteOctets != 200 || in.WriteOctets != 200 || out.Messages[verbs.OpWrite] != 100 {
		t.Fatalf("%d messages of %d; out %+v, in %+v", len(b.got), len(want), out, in)
	}
}

// alikeWRs returns work requests of which many in a row differ only in their payload.
func alikeWRs(rnd *rand.Rand, n int, stag region.STag, completed *rdmaptest.Done) (wrs []verbs.WR) {
	sizes := []int{0, 1, 2, 3, 4, 7, 8, 64, 65, 700, verbs.CopyLimit, verbs.CopyLimit + 1}
	for len(wrs) < n {
		ops := []verbs.Opcode{verbs.OpSend, verbs.OpSend, verbs.OpSendSE, verbs.OpSendInvalidate, verbs.OpWrite, verbs.OpImmediate}
		wr, size := verbs.WR{Op: ops[rnd.IntN(len(ops))]}, sizes[rnd.IntN(len(sizes))]
		if wr.Op == verbs.OpImmediate {
			size = engine.ImmediateLen
		}
		for range 1 + rnd.IntN(min(2*engine.MaxCoalesced, 40000/(size+1)+1)) {
			p := make([]byte, size)
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			cut := rnd.IntN(size + 1)
			wr.STag = stag + region.STag(rnd.IntN(2))
			wr.Head, wr.Body, wr.Done = p[:cut], p[cut:], nil
			if rnd.IntN(30) == 0 {
				wr.Done = completed
			}
			wrs = append(wrs, wr)
		}
	}
	return wrs
}

// TestJoinAlike: work requests that are posted together are sent like those that are posted one by one:
// the same octets in the same batches, the same messages together, and so the same completions.
func TestJoinAlike(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var together, singly rdmaptest.Done
		cfg := engineConfig{mulpdu: []int{0, 100}[seed%2], nocrc: seed%3 == 0}
		a, b := newEngine(cfg), newEngine(cfg)
		for range 3 {
			wrs := alikeWRs(rnd, 300, region.STag(seed), &together)
			a.snd.PostAll(wrs)
			for i := range wrs {
				if wrs[i].Done != nil {
					wrs[i].Done = &singly
				}
				b.snd.Post(&wrs[i])
			}
			if rnd.IntN(2) == 0 { // the last one is withdrawn, if it has a Completer
				if one, other := a.snd.Cancel(&together), b.snd.Cancel(&singly); one != other {
					t.Fatalf("seed %d: cancelled %v, %v", seed, one, other)
				}
			}
			if a.snd.Requests().Len() != b.snd.Requests().Len() || a.snd.Copied != b.snd.Copied {
				t.Fatalf("seed %d: %d and %d items of %d and %d octets", seed, a.snd.Requests().Len(), b.snd.Requests().Len(), a.snd.Copied, b.snd.Copied)
			}
			one, other := a.output(), b.output()
			if !bytes.Equal(one, other) {
				t.Fatalf("seed %d: %d and %d octets differ", seed, len(one), len(other))
			}
		}
		if together != singly || a.wk.Out != b.wk.Out || a.snd.Copied != 0 || *a.wk.MSN() != *b.wk.MSN() {
			t.Fatalf("seed %d: %+v, %+v", seed, a.wk.Out, b.wk.Out)
		}
	}
}
