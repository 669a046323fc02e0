package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// connRig is an orderRig whose halves are Conns. The responder records messages in the trace, if there is a
// gate as soon as that permits it.
type connRig struct {
	*orderRig
	x, y *rdmap.Conn
	gate chan struct{}
}

func (g *connRig) HandleRecv(_ *rdmap.Conn, m *verbs.Message) {
	if g.gate != nil {
		<-g.gate
	}
	g.trace = append(g.trace, int(m.Data[0]))
}

func (g *connRig) HandleClose(*rdmap.Conn, error) {}

// onConns runs f for a pair of operations.
func onConns(t *testing.T, pair string, f func(t *testing.T, g *connRig)) {
	t.Run(pair, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b, _ := strings.Cut(pair, "-")
			f(t, newConnRig(t, a, b))
		})
	})
}

func newConnRig(t *testing.T, firstOp, laterOp string) *connRig {
	g := &connRig{orderRig: orderRigOf(t, firstOp, laterOp)}
	p, q := rdmaptest.Pipe()
	g.x, g.y = rdmaptest.Connect(t, p, q, &rdmap.Config{Startup: rdmap.Startup{Extensions: engine.ExtAll}}, &rdmap.Config{Startup: rdmap.Startup{Extensions: engine.ExtAll}, Handler: g})
	g.register(g.x.Table(), g.y.Table())
	go g.x.Serve()
	go g.y.Serve()
	return g
}

// run posts both operations and returns when nothing more can happen.
func (g *connRig) run(change func([]verbs.WR)) {
	g.t.Helper()
	wrs := g.wrs(g.region.STag())
	if change != nil {
		change(wrs)
	}
	if err := g.x.Post(wrs); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait()
}

// untouched reports whether no request has had an effect.
func (g *connRig) untouched() bool {
	return wordOf(g.mem.Bytes()) == wordOf(rdmaptest.Pattern(8)) && len(g.mem.persisted) == 0
}

// TestOrderingHung: while a Flush or Verify is running, messages and Writes pass it, requests do not.
func TestOrderingHung(t *testing.T) {
	everything := append([]string{"Send", "Imm", "Write"}, requests...)
	for i := range 2 * len(everything) {
		a, b := []string{"F", "V"}[i%2], everything[i/2]
		passes := orderOps[b].response == 0
		onConns(t, a+"-"+b, func(t *testing.T, g *connRig) {
			g.mem.gate = make(chan struct{})
			g.run(nil)
			wrote := g.names[later] == "Write" && wordOf(g.mem.Bytes()) == store(0, later)
			if passed := len(g.trace) > 0 || wrote; passed != passes {
				t.Errorf("passed: %v, want %v", passed, passes)
			}
			if !passes && !g.untouched() || len(g.done) > 0 {
				t.Errorf("done although the first one is not: %v, the word is %x", g.done, wordOf(g.mem.Bytes()))
			}
			close(g.mem.gate)
			synctest.Wait()
			if g.trace = waits; passes {
				g.trace = []int{later, first}
			}
			g.effects()
		})
	}
}

// TestOrderingFailed: nothing is carried out after a flush that fails, or after a hash that differs.
func TestOrderingFailed(t *testing.T) {
	for _, pair := range []string{"F-Read", "F-At", "F-AW", "V-Read", "V-At", "V-F", "V-AW"} {
		onConns(t, pair, func(t *testing.T, g *connRig) {
			if g.names[first] == "F" {
				g.mem.err = rdmaptest.ErrTest
			}
			g.run(func(wrs []verbs.WR) {
				if g.names[first] == "V" {
					wrs[0].Head = rdmaptest.Castagnoli([]byte("something else"))
				}
			})
			if !slices.Equal(g.done, []string{"1!", "2!"}) || !g.untouched() {
				t.Errorf("completed %v, the word is %x", g.done, wordOf(g.mem.Bytes()))
			}
		})
	}
}

// TestOrderingUpcall: while the upper layer handles a message, no request after that message is carried
// out.
func TestOrderingUpcall(t *testing.T) {
	for i := range 2 * len(requests) {
		onConns(t, []string{"Send-", "Imm-"}[i%2]+requests[i/2], func(t *testing.T, g *connRig) {
			g.gate = make(chan struct{})
			g.run(nil)
			if !slices.Equal(g.done, []string{"1"}) || !g.untouched() {
				t.Errorf("completed %v, the word is %x", g.done, wordOf(g.mem.Bytes()))
			}
			close(g.gate)
			synctest.Wait()
			g.trace = append(g.trace, later)
			g.effects()
		})
	}
}

// TestSendOvertakesResponse: a Send completes at a peer that cannot send the Response to the Read before
// it.
//
// spec: rdmap 7.4 overtake
func TestSendOvertakesResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := rdmaptest.PipeSize(1000)
		h := rdmaptest.NewCollector()
		y := rdmap.Server(q, &rdmap.Config{Handler: h, Startup: rdmap.Startup{Plain: true}})
		go y.Handshake(t.Context())
		peer, _, err := rdmaptest.Initiate(p, &mpa.Config{IRD: 1, ORD: 1})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go y.Serve()
		src, err := y.Register(rdmaptest.Pattern(100_000), region.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		a := newEngine(engineConfig{ord: 1})
		_, sink := a.register(t, 100_000, region.ReadSink)
		a.post(
			verbs.WR{Op: verbs.OpReadRequest, STag: src.STag(), Sink: sink.STag(), Len: 100_000},
			verbs.WR{Op: verbs.OpSend, Head: []byte("overtakes")},
		)
		if _, err := peer.Conn.Write(a.output()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(h.Got) != 1 {
			t.Error("the Send waits for the Response")
		}
		for a.read == 0 && a.err == nil {
			u, err := peer.Next()
			if err != nil {
				t.Fatal(err)
			}
			a.input(rdmaptest.FPDU(u))
		}
		p.Close()
		<-y.Done()
	})
}

// TestStreamsAreIndependent: a request that hangs stops neither other streams that use the same memory, nor
// the other direction of its own stream.
//
// spec: rdmap 7.4 streams
func TestStreamsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, free := newConnRig(t, "F", "AW"), newConnRig(t, "AW", "Read")
		hung.mem.gate = make(chan struct{})
		hung.run(nil)

		reg, err := free.y.Table().RegisterMemory(hung.mem, region.Options{Access: rdmaptest.CommitRights})
		if err != nil {
			t.Fatal(err)
		}
		free.region, free.mem = reg, hung.mem
		free.run(nil)
		free.trace = waits
		free.effects()

		back, err := hung.x.Register(rdmaptest.Pattern(100), region.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		sink := make([]byte, 100)
		if err := hung.y.Read(t.Context(), sink, back.STag(), 0); err != nil || sink[99] != rdmaptest.Pattern(100)[99] {
			t.Errorf("the other direction: %v", err)
		}
		if err := hung.y.Send(t.Context(), []byte("hello")); err != nil {
			t.Error(err)
		}
		if m, err := hung.x.Recv(t.Context()); err != nil || string(m.Data) != "hello" {
			t.Errorf("the other direction: %v", err)
		}
		if len(hung.done) > 0 {
			t.Errorf("completed %v", hung.done)
		}
		close(hung.mem.gate)
		synctest.Wait()
		if !slices.Equal(hung.done, []string{"1", "2"}) {
			t.Errorf("completed %v", hung.done)
		}
	})
}
