package engine_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// conversation returns a valid stream with every kind of message, made by another engine, for a peer
// with a region stag of 1000 octets.
func conversation(crc bool, stag region.STag) []byte {
	b := newEngine(engineConfig{mulpdu: 200, ord: 8, nocrc: !crc})
	b.post(
		verbs.WR{Op: verbs.OpSend, Head: []byte("hello")},
		verbs.WR{Op: verbs.OpWrite, STag: stag, Body: rdmaptest.Pattern(500)},
		verbs.WR{Op: verbs.OpSendSE, Body: rdmaptest.Pattern(700)},
		verbs.WR{Op: verbs.OpReadRequest, STag: stag, Len: 300, Sink: 7},
		verbs.WR{Op: verbs.OpReadRequest, STag: stag, Len: 0, Sink: 7},
		verbs.WR{Op: verbs.OpSend},
		verbs.WR{Op: verbs.OpWrite, STag: stag, TO: 500},
		verbs.WR{Op: verbs.OpSendSE, Body: rdmaptest.Pattern(9)},
	)
	return b.output()
}

// listener is the engine that receives the conversation.
type listener struct {
	*halves
	mem []byte
	in  []byte // the conversation
}

func newListener(t testing.TB) *listener {
	t.Helper()
	e := newEngine(engineConfig{recvs: 10, ird: 8})
	mem, reg := e.register(t, 1000, rdmaptest.AllRights)
	return &listener{e, mem, conversation(true, reg.STag())}
}

func (l *listener) log() string {
	var b strings.Builder
	for _, m := range l.halves.got {
		fmt.Fprintf(&b, "%v %x inv=%v se=%v\n", m.Op, m.Data, m.Invalidated != 0, m.Solicited)
	}
	fmt.Fprintf(&b, "mem %x\nerr %v live %d\n", l.mem, l.err, l.snd.Table.Live())
	return b.String()
}

// TestSplitInvariance: however the stream is cut, the same things happen, and the answer has the same
// octets. ADVERSARY 13.
func TestSplitInvariance(t *testing.T) {
	length := len(newListener(t).in)
	run := func(cut func(left int) int) (string, string) {
		l := newListener(t)
		var out []byte
		for in := l.in; len(in) > 0; {
			n := cut(len(in))
			l.input(bytes.Clone(in[:n]))
			out = append(out, l.output()...)
			in = in[n:]
		}
		return l.log(), hex.EncodeToString(out)
	}
	want, answer := run(func(left int) int { return left })
	if !strings.Contains(want, "err <nil> live 1") || len(answer) == 0 {
		t.Fatalf("the conversation itself fails:\n%s", want)
	}
	for at := range length {
		first := true
		log, out := run(func(left int) int {
			if first && at > 0 {
				first = false
				return at
			}
			return left
		})
		if log != want || out != answer {
			t.Fatalf("cut at %d of %d:\n%s\nwant\n%s", at, length, log, want)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for limit := range 40 {
		log, out := run(func(left int) int { return min(left, 1+rng.IntN(limit+1)) })
		if log != want || out != answer {
			t.Fatalf("pieces up to %d:\n%s\nwant\n%s", limit+1, log, want)
		}
	}
}

// TestCutEverywhere ends the stream at every octet of the conversation, with FIN and with a reset. The
// connection ends, and every wait with it; no valid STag, no goroutine (the bubble would not end) and
// no memory of the pool is left. ADVERSARY 9.
func TestCutEverywhere(t *testing.T) {
	length := len(conversation(false, 0))
	step := 7
	if testing.Short() {
		step = 41
	}
	for at := 0; at <= length; at += step {
		for _, reset := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { cutAt(t, at, reset) })
		}
	}
}

func cutAt(t *testing.T, at int, reset bool) {
	a, b := rdmaptest.Pipe()
	pool := rdmap.NewPool(1 << 20)
	h := rdmaptest.NewCollector()
	y := rdmap.Server(b, &rdmap.Config{Startup: rdmap.Startup{CRC: rdmap.CRCOff}, Handler: h, Receives: rdmap.Receives{Pool: pool, Count: 10}})
	go y.Handshake(t.Context())
	p, _, err := rdmaptest.Initiate(a, &mpa.Config{NoCRC: true, IRD: 8, ORD: 8})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	mem := make([]byte, 1000)
	reg, err := y.Register(mem, rdmaptest.AllRights)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- y.Serve() }()
	read := make(chan error, 1)
	go func() { read <- y.Read(context.Background(), make([]byte, 10), 1, 0) }()
	if _, err := p.Conn.Write(conversation(false, reg.STag())[:at]); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if reset {
		a.Reset()
	} else {
		a.Close()
	}
	for _, ch := range []chan error{served, read} {
		if err := <-ch; err == nil {
			t.Fatalf("cut after %d octets: no error", at)
		}
	}
	<-y.Done()
	<-h.Over
	if n := y.Table().Live(); n != 0 || reg.Valid() {
		t.Fatalf("cut after %d octets: %d regions live", at, n)
	}
	if n := pool.Used(); n != 0 {
		t.Fatalf("cut after %d octets: %d octets of the pool in use", at, n)
	}
}
