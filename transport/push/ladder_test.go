package push

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Each rung: what it is called, what it gives, and what the consumer sees.
func TestLadder(t *testing.T) {
	for _, test := range []struct {
		name string
		addr string
		best Rung
		rung Rung
	}{
		{"native", "", Native, Native},
		{"no commit listener", "-", Native, Append},
		{"append wanted", "", Append, Append},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, &Server{Addr: test.addr})
			s := w.dial("log", &Config{Best: test.best})
			appended(t, s, commitlog.Persistent, 1, "one", "two", strings.Repeat("x", 100_000), "")
			if s.Rung() != test.rung {
				t.Errorf("rung %v, want %v", s.Rung(), test.rung)
			}
			l := w.take("log", 1, "one", "two", strings.Repeat("x", 100_000), "")
			if err := l.Release(4); err != nil {
				t.Error(err)
			}
			st := w.ps.Stats()
			if byCall := st.Appends == 4; byCall != (test.rung == Append) || (st.Native == 1) == byCall {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Memory that cannot be made durable gives Placed, on each rung.
func TestPlaced(t *testing.T) {
	for _, best := range []Rung{Native, Append} {
		store := newMemStore()
		store.wrap = func(s *pmem.Sim) region.Memory { return make(region.Bytes, len(s.Bytes())) }
		w := start(t, &Server{Store: store})
		s := w.dial("log", &Config{Best: best})
		appended(t, s, commitlog.Placed, 1, "one")
		if s.Rung() != best {
			t.Error(s.Rung())
		}
	}
}

// impostor serves commit connections as a peer that lacks something.
type impostor struct {
	cfg   rdmap.Config
	serve func(c *rdmap.Conn, sess *session)
}

// run accepts connections until the test ends, and returns where.
func (i *impostor) run(t *testing.T, ps *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			i.one(nc, ps)
		}
	}()
	return l.Addr().String()
}

func (i *impostor) one(nc net.Conn, ps *Server) {
	cfg := i.cfg
	var sess *session
	cfg.Startup.Accept = func(req *mpa.Request) ([]byte, error) {
		sess, _ = ps.side.Redeem(req.PrivateData)
		return nil, nil
	}
	c := rdmap.Server(nc, &cfg)
	defer c.Close()
	if c.Handshake(context.Background()) != nil || sess == nil {
		return
	}
	if i.serve != nil {
		i.serve(c, sess)
	}
	_ = c.Serve()
}

// A peer whose commit connections are worth nothing costs the rung, and no record: one
// that says it lacks the extension, one that shows it by a Terminate, one that hangs up.
func TestNoExtension(t *testing.T) {
	t.Parallel()
	answer := func(c *rdmap.Conn, sess *session) {
		a := sess.prep.Answer()
		a.RingSTag, a.TailSTag, a.HeadSTag = 0x101, 0x202, 0x303
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}})
	}
	for name, peer := range map[string]*impostor{
		"says so":      {},
		"terminates":   {cfg: rdmap.Config{Startup: rdmap.Startup{Plain: true}}, serve: answer},
		"hangs up":     {cfg: rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, serve: func(c *rdmap.Conn, _ *session) { c.Close() }},
		"answers, off": {cfg: rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, serve: answer},
	} {
		t.Run(name, func(t *testing.T) {
			ps := &Server{}
			w := start(t, ps)
			ps.mu.Lock()
			ps.Addr = peer.run(t, ps)
			ps.mu.Unlock()
			s := w.dial("log", nil)
			appended(t, s, commitlog.Persistent, 1, "one", "two")
			if s.Rung() != Append {
				t.Errorf("rung %v", s.Rung())
			}
			w.take("log", 1, "one", "two")
		})
	}
}

// A commit address where nobody listens costs the rung.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	ps := &Server{}
	w := start(t, ps)
	ps.mu.Lock()
	ps.Addr = addr
	ps.mu.Unlock()
	l.Close()
	s := w.dial("log", nil)
	appended(t, s, commitlog.Persistent, 1, "one")
	if s.Rung() != Append {
		t.Error(s.Rung())
	}
}

// More than the ring holds, on each rung: appends wait for the consumer.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	for _, best := range []Rung{Native, Append} {
		t.Run(best.String(), func(t *testing.T) {
			w := start(t, &Server{})
			s := w.dial("log", &Config{Best: best, Capacity: 4096})
			const n = 200
			done := make(chan error, 1)
			go func() {
				var pending []*commitlog.Pending
				for range n {
					e, err := s.Begin(make([]byte, 200))
					if err != nil {
						done <- err
						return
					}
					pending = append(pending, e)
				}
				for _, e := range pending {
					if _, err := e.Wait(t.Context()); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			l, err := w.ps.Log("log")
			if err != nil {
				t.Fatal(err)
			}
			for seq := uint64(1); seq <= n; seq++ {
				r, err := l.Next(t.Context())
				if err != nil || r.Seq != seq {
					t.Fatal(r, err)
				}
				if seq%8 == 0 {
					if err := l.Release(seq); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// When commit connections are tried again, and when not.
func TestNativeTries(t *testing.T) {
	cut := &verbs.ConnError{Op: "read", Err: io.EOF}
	refused := &verbs.TerminateError{}
	type end struct {
		useful bool
		err    error
	}
	for name, test := range map[string]struct {
		ends []end
		want bool
	}{
		"nothing yet":            {nil, true},
		"two came to nothing":    {[]end{{false, cut}, {false, cut}}, true},
		"three came to nothing":  {[]end{{false, cut}, {false, cut}, {false, cut}}, false},
		"one of many was useful": {[]end{{false, cut}, {false, cut}, {true, cut}, {false, cut}, {false, cut}}, true},
		"lacks the extension":    {[]end{{false, commitlog.ErrNoExtension}}, false},
		"refused the operations": {[]end{{false, refused}}, false},
		"refused later":          {[]end{{true, refused}}, true},
	} {
		var n nativeTries
		for _, e := range test.ends {
			n.ended(e.useful, e.err)
		}
		if n.wanted() != test.want {
			t.Errorf("%s: %v", name, n.wanted())
		}
	}
}
