package transport_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// listenOnce listens with a cache of all procedures of the test program but NULL.
func listenOnce(t testing.TB, cfg *transport.Config) *transport.Listener {
	t.Helper()
	cfg.Duplicates.NonIdempotent = (&once{}).changes
	l := listenAny(t, cfg)
	return l.(*transport.Listener)
}

// TestListenForgets: a call that the server above has not read, not answered when it closed
// the connection, or never answers at all, runs anew when it comes again.
func TestListenForgets(t *testing.T) {
	for _, tt := range []struct {
		name string
		read int // octets that the server above reads of the call
		end  func(client *transport.Client, rec net.Conn)
	}{
		{"unread", 0, func(c *transport.Client, _ net.Conn) { c.Conn().Abort(nil) }},
		{"half read", 20, func(c *transport.Client, _ net.Conn) { c.Conn().Abort(nil) }},
		{"closed by the server", 44, func(_ *transport.Client, rec net.Conn) { rec.Close() }},
		{"cut, then closed by the server", 44, func(c *transport.Client, rec net.Conn) {
			c.Conn().Abort(nil)
			<-transport.ResponderOf(rec).Over
			rec.Close()
		}},
		{"cut and never answered", 44, func(c *transport.Client, rec net.Conn) {
			c.Conn().Abort(nil)
			if n, err := rec.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				panic("Read ends with something else")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Duplicates.Time = time.Hour
			if tt.name == "cut and never answered" {
				cfg.Duplicates.Time = time.Millisecond
			}
			l, h := listenOnce(t, cfg), newOnce()
			a := must(transport.Dial(testCtx(t), "tcp", l.Addr().String(), testConfig()))(t)
			rec := accepted(t, l)
			first := make(chan error, 1)
			go func() { first <- try(t, a, withXID(7, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procDeny})) }()
			must(io.ReadFull(rec, make([]byte, tt.read)))(t)
			waitFor(t, "the call has come", func() bool { return l.Stats().Calls == 1 })
			tt.end(a, rec)
			if err := <-first; err == nil {
				t.Error("got an answer to a call on a connection that has ended")
			}
			serveSerially(t, l, h)
			var r rpc.Reply
			noErr(t, dial(t, l.Addr().String(), nil).Do(testCtx(t), withXID(7, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procDeny}), &r))
			r.Release()
			if n := h.times(7); n != 1 {
				t.Errorf("it ran %d times, want once", n)
			}
		})
	}
}

func TestChangesNFS3(t *testing.T) {
	var procs []uint32
	for proc := range uint32(30) {
		if transport.ChangesNFS3(100003, 3, proc) {
			procs = append(procs, proc)
		}
		if transport.ChangesNFS3(100003, 4, proc) || transport.ChangesNFS3(100005, 3, proc) {
			t.Errorf("procedure %d of another program or version", proc)
		}
	}
	if len(procs) != 10 || procs[0] != 2 || procs[1] != 7 || procs[9] != 15 {
		t.Errorf("%v", procs)
	}
}

// pipeListener accepts what is put into it.
type pipeListener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn, 64), over: make(chan struct{})}
}

func (l *pipeListener) put(c net.Conn) { l.conns <- c }

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestListenOnceModel is TestOnceModel with a server written for TCP under a Listener.
func TestListenOnceModel(t *testing.T) {
	runOnceModel(t, func(t *testing.T, seed uint64, steps int) {
		h := &ledger{echo: newEcho(), rnd: rand.New(rand.NewPCG(seed, 8)), ran: make(map[uint64]int)}
		w := &modelNetwork{l: newPipeListener(), rnd: rand.New(rand.NewPCG(seed, 9))}
		cfg := onceConfig()
		cfg.Duplicates.NonIdempotent = h.changes
		l := must(transport.NewListener(w.l, cfg))(t)
		above := unwatched(testConfig())
		above.Duplicates.Entries = -1
		s := &transport.Server{Handler: h, Config: above}
		served := make(chan error, 1)
		go func() { served <- s.ServeStream(l) }()
		onceModelOver(t, seed, steps, h, w, l.Stats, func() { s.Close(); <-served })
	})
}
