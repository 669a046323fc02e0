package transport_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// listenOnce listens with a cache of all procedures of the test program but NULL.
func listenOnce(t testing.TB, cfg *transport.Config) *transport.Listener {
	t.Helper()
	cfg.Duplicates.NonIdempotent = (&once{}).changes
	l, err := transport.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*transport.Listener)
}

// TestListenReplay: behind a listener a repeated call, on the same connection or a
// new one, with other chunks offered each time, does not reach the server written for TCP.
func TestListenReplay(t *testing.T) {
	l, h := listenOnce(t, testConfig()), newOnce()
	serveSerially(t, l, h)
	addr := l.Addr().String()
	a := dial(t, addr, nil)
	ways := []way{
		{"first", a, true},
		{"same connection", a, true},
		{"same connection, reply chunk", a, false},
		{"new connection", dial(t, addr, nil), true},
		{"another one", dial(t, addr, nil), false},
	}
	replayAll(t, h, ways, []*rpc.Call{
		echoCall(filled(5001)), echoCall(filled(30)), echoCall(nil), listCall(),
		{Prog: testProg, Vers: testVers, Proc: procDeny},
		itemCall(procSum, filled(1<<19)),
	})
	other := withXID(0x1000, echoCall(filled(5000))) // the same XID, other arguments
	other.Cred = (&xdr.SysCred{MachineName: "x"}).Auth()
	other.Sink, other.MaxResults = make([]byte, 5000), 64
	mustDo(t, a, other)
	mustDo(t, a, withXID(9, &nullCall))
	mustDo(t, a, withXID(9, &nullCall))
	if h.times(0x1000) != 2 || h.times(9) != 2 {
		t.Errorf("another call ran %d times, one that may run again %d", h.times(0x1000)-1, h.times(9))
	}
	if st := l.Stats(); st.Replayed != 6*4 || st.DRCEntries != 7 {
		t.Errorf("%+v", st)
	}
}

// TestListenCut: the connection ends while the server above works on a call. That server
// is not disturbed; its reply is for the call when it comes again, before it has ended or
// after, and only then it sees the end of the connection.
func TestListenCut(t *testing.T) {
	l, h := listenOnce(t, testConfig()), newOnce()
	ended := make(chan error, 1)
	rec := serveOne(t, l, h, ended)
	a, err := transport.Dial(testCtx(t), "tcp", l.Addr().String(), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- try(t, a, withXID(7, &blockCall)) }()
	<-h.enter
	a.Conn().Abort(nil)
	if err := <-first; !errors.Is(err, net.ErrClosed) {
		t.Errorf("call on a connection that ended: %v", err)
	}
	waitFor(t, "the listener knows", func() bool { return l.Stats().Connections == 0 })
	serveSerially(t, l, h)
	b := dial(t, l.Addr().String(), nil)
	mustDo(t, b, &nullCall) // its grant
	again := make(chan error, 2)
	go func() { again <- try(t, b, withXID(7, &blockCall)) }()
	other := dial(t, l.Addr().String(), nil)
	go func() { again <- try(t, other, withXID(7, &blockCall)) }()
	waitFor(t, "both wait", func() bool { return l.Stats().Joined == 2 })
	mustDo(t, b, &nullCall) // they hold nothing up
	select {
	case err := <-ended:
		t.Fatalf("the server above has seen %v", err)
	default:
	}
	close(h.leave)
	for range 2 {
		if err := <-again; err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the server above has seen %v, want io.EOF", err)
	}
	if _, err := (<-rec).Write(make([]byte, 4)); err == nil {
		t.Error("Write after the end succeeded")
	}
	mustDo(t, b, withXID(7, &blockCall))
	if n := h.times(7); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if st := l.Stats(); st.Replayed != 1 || st.Joined != 2 {
		t.Errorf("%+v", st)
	}
}

// serveOne serves the next connection, which it gives out, serially; ended gets the error
// of Read.
func serveOne(t *testing.T, l net.Listener, h rpc.Handler, ended chan error) chan net.Conn {
	t.Helper()
	conn := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- err
			return
		}
		conn <- c
		r := xdr.NewRecordReader(c, 1<<20)
		for {
			msg, err := r.Next(nil)
			if err != nil {
				ended <- err
				return
			}
			reply, _ := rpc.ServeMessage(t.Context(), h, c.RemoteAddr(), msg, nil)
			if _, err := c.Write(append(xdr.AppendRecordMark(nil, len(reply), true), reply...)); err != nil {
				ended <- err
				return
			}
		}
	}()
	return conn
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
			a, err := transport.Dial(testCtx(t), "tcp", l.Addr().String(), testConfig())
			if err != nil {
				t.Fatal(err)
			}
			rec := accepted(t, l)
			first := make(chan error, 1)
			go func() { first <- try(t, a, withXID(7, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procDeny})) }()
			if _, err := io.ReadFull(rec, make([]byte, tt.read)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the call has come", func() bool { return l.Stats().Calls == 1 })
			tt.end(a, rec)
			if err := <-first; err == nil {
				t.Error("got an answer to a call on a connection that has ended")
			}
			serveSerially(t, l, h)
			var r rpc.Reply
			if err := dial(t, l.Addr().String(), nil).Do(testCtx(t), withXID(7, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procDeny}), &r); err != nil {
				t.Fatal(err)
			}
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
		l, err := transport.NewListener(w.l, cfg)
		if err != nil {
			t.Fatal(err)
		}
		above := unwatched(testConfig())
		above.Duplicates.Entries = -1
		s := &transport.Server{Handler: h, Config: above}
		served := make(chan error, 1)
		go func() { served <- s.ServeStream(l) }()
		onceModelOver(t, seed, steps, h, w, l.Stats, func() { s.Close(); <-served })
	})
}
