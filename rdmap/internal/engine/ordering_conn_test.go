package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// connRig is an orderRig whose halves are Conns. The responder records messages in the trace.
type connRig struct {
	*orderRig
	x, y *rdmap.Conn
}

func (g *connRig) HandleRecv(_ *rdmap.Conn, m *verbs.Message) {
	g.trace = append(g.trace, int(m.Data[0]))
}

func (g *connRig) HandleClose(*rdmap.Conn, error) {}

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
		noErr(t, err)
		synctest.Wait()
		go y.Serve()
		src := must(y.Register(rdmaptest.Pattern(100_000), region.RemoteRead))(t)
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
			u := must(peer.Next())(t)
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

		reg := must(free.y.Table().RegisterMemory(hung.mem, region.Options{Access: rdmaptest.CommitRights}))(t)
		free.region, free.mem = reg, hung.mem
		free.run(nil)
		free.trace = waits
		free.effects()

		back := must(hung.x.Register(rdmaptest.Pattern(100), region.RemoteRead))(t)
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
