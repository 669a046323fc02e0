package push_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// Each rung: what it is called, what it gives, and what is in the log.
func TestLadder(t *testing.T) {
	for _, test := range []struct {
		name string
		addr string
		best push.Rung
		rung push.Rung
	}{
		{"native", "", push.Native, push.Native},
		{"no commit listener", "-", push.Native, push.Append},
		{"append wanted", "", push.Append, push.Append},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, &push.Server{Addr: test.addr})
			s := w.dial("log", &push.Config{Best: test.best})
			appended(t, s, commitlog.Persistent, 1, "one", "two", strings.Repeat("x", 100_000), "")
			if s.Rung() != test.rung {
				t.Errorf("rung %v, want %v", s.Rung(), test.rung)
			}
			l := w.take("log", 1, "one", "two", strings.Repeat("x", 100_000), "")
			if err := l.Release(4); err != nil {
				t.Error(err)
			}
			st := w.ps.Stats()
			if byCall := st.Appends == 4; byCall != (test.rung == push.Append) || (st.Native == 1) == byCall {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Memory that cannot be made durable gives Placed, on each rung.
func TestPlaced(t *testing.T) {
	for _, best := range []push.Rung{push.Native, push.Append} {
		store := newMemStore()
		store.wrap = func(size int) region.Memory { return make(region.Bytes, size) }
		w := start(t, &push.Server{Store: store})
		s := w.dial("log", &push.Config{Best: best})
		appended(t, s, commitlog.Placed, 1, "one")
		if s.Rung() != best {
			t.Error(s.Rung())
		}
	}
}

// impostor serves commit connections as a peer that lacks something.
type impostor struct {
	cfg   rdmap.Config
	serve func(c *rdmap.Conn, told commitlog.Answer)
	heard *listening // has the answer that its victim is told
}

// run accepts connections until the test ends, and returns where.
func (i *impostor) run(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	over := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			i.one(nc)
		}
	}()
	return l.Addr().String()
}

func (i *impostor) one(nc net.Conn) {
	cfg := i.cfg
	c := rdmap.Server(nc, &cfg)
	defer c.Close()
	if c.Handshake(context.Background()) != nil {
		return
	}
	if i.serve != nil {
		told := i.heard.last()
		i.serve(c, told.Opened.Answer)
	}
	_ = c.Serve()
}

// A peer whose commit connections are worth nothing costs the rung, and no record: one
// that says it lacks the extension, one that shows it by a Terminate, one that hangs up.
func TestNoExtension(t *testing.T) {
	t.Parallel()
	answer := func(c *rdmap.Conn, a commitlog.Answer) {
		a.RingSTag, a.TailSTag, a.HeadSTag = 0x101, 0x202, 0x303
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}})
	}
	for name, peer := range map[string]*impostor{
		"says so":      {},
		"terminates":   {cfg: rdmap.Config{Startup: rdmap.Startup{Plain: true}}, serve: answer},
		"hangs up":     {cfg: rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, serve: func(c *rdmap.Conn, _ commitlog.Answer) { c.Close() }},
		"answers, off": {cfg: rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, serve: answer},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, &push.Server{Addr: peer.run(t)})
			peer.heard = &listening{Caller: w.caller()}
			s := must(w.dialBy(peer.heard, "log", nil))(t)
			appended(t, s, commitlog.Persistent, 1, "one", "two")
			// Which rung holds afterwards is chance: after a rest, a commit connection is tried once more.
			if st := w.ps.Stats(); st.Appends < 2 {
				t.Errorf("no session by call acknowledged the records: %+v", st)
			}
			w.take("log", 1, "one", "two")
		})
	}
}

// A commit address where nobody listens costs the rung.
func TestUnreachable(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	l.Close()
	w := start(t, &push.Server{Addr: addr})
	s := w.dial("log", nil)
	appended(t, s, commitlog.Persistent, 1, "one")
	if s.Rung() != push.Append {
		t.Error(s.Rung())
	}
}
