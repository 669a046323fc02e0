package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// once is echo with calls that must not run twice: all but NULL. It counts what runs.
type once struct {
	*echo
	mu  sync.Mutex
	ran map[uint32]int // by XID
}

func newOnce() *once { return &once{echo: newEcho(), ran: make(map[uint32]int)} }

// changes names the calls that must not run twice.
func (*once) changes(prog, _, proc uint32) bool { return prog == testProg && proc != procNull }

func (h *once) Describe(req *rpc.Request) rpc.Traits {
	t := h.echo.Describe(req)
	t.Once = h.changes(req.Prog, req.Vers, req.Proc)
	return t
}

func (h *once) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	h.mu.Lock()
	h.ran[req.XID]++
	h.mu.Unlock()
	if req.Proc == procSum {
		resp.Verf = xdr.Auth{Flavor: xdr.AuthShort, Body: words(req.XID)}
	}
	if req.Proc == procDeny {
		resp.Deny(xdr.AuthTooWeak)
		return
	}
	h.echo.ServeRPC(ctx, req, resp)
}

// procDeny is a procedure of once.
const procDeny = 77

func (h *once) times(xid uint32) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ran[xid]
}

// withXID is call with an XID of the test's choice.
func withXID(xid uint32, call *rpc.Call) *rpc.Call {
	c := *call
	c.Resend = &rpc.Transmission{XID: xid}
	return &c
}

// flat returns a reply's status and its results with the item in place.
func flat(t *testing.T, r *rpc.Reply) (string, []byte) {
	t.Helper()
	status := "ok"
	if len(r.Header.Verf.Body) > 0 {
		status = fmt.Sprint("ok ", r.Header.Verf)
	}
	if err := r.Header.Err(); err != nil {
		status = err.Error()
	}
	if r.Item == nil {
		return status, bytes.Clone(r.Results)
	}
	b := append(bytes.Clone(r.Results[:4]), r.Item...)
	return status, append(xdr.AppendPad(b, len(r.Item)), r.Results[4:]...)
}

// way is one way of sending a call: on c, with or without a Sink for the item of an echo.
type way struct {
	name string
	c    rpc.Caller
	sink bool
}

// listCall is a call whose results are a list of 3000 words.
func listCall() *rpc.Call {
	c := wordCall(procList, 3000)
	c.MaxResults = 4 * 3000
	return c
}

// replayAll sends each call in all ways, under one XID: it runs once, and the reply is always
// that of the first way.
func replayAll(t *testing.T, h *once, ways []way, calls []*rpc.Call) {
	t.Helper()
	for i, call := range calls {
		xid := uint32(0x1000 + i)
		var status string
		var want []byte
		for n, w := range ways {
			c := withXID(xid, call)
			c.MaxResults = max(c.MaxResults, len(c.Item)+64)
			if w.sink && c.Proc == procEcho {
				c.Sink, c.MaxResults = make([]byte, len(c.Item)), 64
			}
			var r rpc.Reply
			if err := w.c.Do(testCtx(t), c, &r); err != nil {
				t.Fatalf("call %d, %s: %v", i, w.name, err)
			}
			st, got := flat(t, &r)
			if n == 0 {
				status, want = st, got
			}
			if st != status || !bytes.Equal(got, want) {
				t.Errorf("call %d, %s: %s, %d octets; at first %s, %d octets", i, w.name, st, len(got), status, len(want))
			}
			r.Release()
		}
		if n := h.times(xid); n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
}

// TestReplay sends calls of every form of reply again: on the same connection, on a new
// one, over TCP, with other chunks offered each time. They run once and the reply is the
// same (ADVERSARY 12).
func TestReplay(t *testing.T) {
	h := newOnce()
	cfg := testConfig()
	cfg.Logger = zap.NewNop() // one call panics
	s, addr := served(t, overShared, h, cfg)
	stream := func() rpc.Caller { return dialStream(t, addr, nil) }
	a := dial(t, addr, nil)
	ways := []way{
		{"first", a, true},
		{"same connection", a, true},
		{"same connection, reply chunk", a, false},
		{"new connection", dial(t, addr, nil), true},
		{"TCP", stream(), true},
		{"new TCP connection", stream(), false},
	}
	replayAll(t, h, ways, []*rpc.Call{
		echoCall(filled(5001)), echoCall(filled(30)), echoCall(nil), listCall(),
		{Prog: testProg, Vers: testVers, Proc: procPanic},
		{Prog: testProg, Vers: testVers, Proc: procDeny},
		{Prog: testProg, Vers: 9, Proc: procEcho},
		itemCall(procSum, filled(1<<20)),
	})
	if st := s.Stats(); st.Replayed != 8*5 || st.DRCEntries != 8 || st.Panics != 1 || st.Joined != 0 {
		t.Errorf("%+v", st)
	}
}

// TestReaderFreeForDuplicates: a duplicate of a running call that its handler calls short
// does not hold up the connection it came by.
func TestReaderFreeForDuplicates(t *testing.T) {
	h := &shortOnce{newOnce()}
	_, addr := startServer(t, h, unwatched(testConfig()))
	a, b := dial(t, addr, nil), dial(t, addr, nil)
	mustDo(t, b, &nullCall) // its grant
	done := make(chan error, 2)
	go func() { done <- try(t, a, withXID(7, &blockCall)) }()
	<-h.enter
	go func() { done <- try(t, b, withXID(7, &blockCall)) }()
	waitFor(t, "it waits", func() bool { return b.Stats().Calls == 2 })
	mustDo(t, b, &nullCall)
	close(h.leave)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type shortOnce struct{ *once }

// Describe says that no call blocks, which is not so.
func (h shortOnce) Describe(req *rpc.Request) rpc.Traits {
	t := h.once.Describe(req)
	t.Blocks = false
	return t
}

// TestDuplicateOwners: whatever a user of the server's machine claims, he neither gets the replies of another user nor
// makes them, by any kind of server; what is claimed is judged behind the cache.
func TestDuplicateOwners(t *testing.T) {
	cfg := testConfig()
	// The owner of a connection is in its port, as the kernel knows it.
	cfg.Duplicates.Owner = func(a net.Addr) string { return fmt.Sprint(a.(*net.TCPAddr).Port) }
	cfg.Duplicates.NonIdempotent = (&once{}).changes
	h := newOnce()
	s := newServer(t, h, cfg)
	pipes := &listenPipes{conns: make(chan net.Conn)}
	l := must(transport.NewListener(pipes, cfg))(t)
	serveSerially(t, l, h)
	for i, x := range []struct {
		name string
		dial func(a, b net.Conn) (rpc.Caller, error)
	}{
		{"RDMA", func(a, b net.Conn) (rpc.Caller, error) {
			go s.ServeConn(b)
			return transport.NewClient(testCtx(t), a, testConfig())
		}},
		{"TCP", func(a, b net.Conn) (rpc.Caller, error) {
			go s.ServeStreamConn(b)
			return transport.NewStreamClient(context.Background(), a, testConfig())
		}},
		{"Listener", func(a, b net.Conn) (rpc.Caller, error) {
			pipes.conns <- b
			return transport.NewClient(testCtx(t), a, testConfig())
		}},
	} {
		xid := uint32(100 + i)
		for n, owner := range []int{1, 2, 1, 2, 3} {
			a, b := rdmaptest.Pipe()
			defer a.Close()
			c := must(x.dial(a, &from{b, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: owner}}))(t)
			call := withXID(xid, echoCall(words(7)))
			call.Cred = (&xdr.SysCred{MachineName: "victim", UID: 1}).Auth() // all claim the same
			call.MaxResults = 64
			mustDo(t, c, call)
			if want := []int{1, 2, 2, 2, 3}[n]; h.times(xid) != want {
				t.Errorf("%s: after %d calls it ran %d times, want %d", x.name, n+1, h.times(xid), want)
			}
		}
	}
}

// TestDuplicateShows: whose connection shows less, because it is in clear or any user of its machine may have made it, gets
// no reply to a call of one that shows more, nor makes it.
func TestDuplicateShows(t *testing.T) {
	w := newWorld(t)
	cfg := w.serverConfig()
	cfg.TLS.AllowClear = true
	h := newOnce()
	s := newServer(t, h, cfg)
	for i, c := range []struct {
		rdma bool
		cfg  *transport.Config
		port int
		runs int // after this call
	}{
		{false, testConfig(), 700, 1},
		{false, testConfig(), 701, 1},
		{false, testConfig(), 5000, 2},
		{false, testConfig(), 5001, 2},
		{false, w.clientConfig(), 700, 3},
		{false, w.clientConfig(w.client), 700, 4},
		{false, w.clientConfig(), 5000, 5},
		{false, w.clientConfig(), 702, 5},
		{false, w.clientConfig(w.client), 702, 5},
		{true, testConfig(), 700, 5}, // which over RDMA anybody may have
		{true, testConfig(), 5000, 5},
	} {
		a, b := rdmaptest.Pipe()
		defer a.Close()
		at := &from{b, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: c.port}}
		var client rpc.Caller
		var err error
		if c.cfg.TLS.Config != nil {
			c.cfg.TLS.Config.ServerName = "nfs.test"
		}
		if c.rdma {
			go s.ServeConn(at)
			client, err = transport.NewClient(testCtx(t), a, c.cfg)
		} else {
			go s.ServeStreamConn(at)
			client, err = transport.NewStreamClient(testCtx(t), a, c.cfg)
		}
		if err != nil {
			t.Fatal(i, err)
		}
		call := withXID(7, echoCall(words(7)))
		call.Cred = (&xdr.SysCred{MachineName: "victim", UID: 1}).Auth() // all claim the same
		mustDo(t, client, call)
		if got := h.times(7); got != c.runs {
			t.Errorf("call %d, over RDMA %t, from port %d: it has run %d times, want %d", i, c.rdma, c.port, got, c.runs)
		}
	}
}

// TestServerClosedDuplicate: when the server is closed, a call that waits for the reply to the
// same one before it does not run in its place.
func TestServerClosedDuplicate(t *testing.T) {
	h := newOnce()
	s := newServer(t, h, nil)
	answers := make(chan xdr.AcceptStat, 2)
	execute := func() {
		go func() {
			req := rpc.Request{CallHeader: xdr.CallHeader{XID: 7, Prog: testProg, Vers: testVers, Proc: blockCall.Proc}}
			resp := new(rpc.Response)
			resp.Reset()
			defer resp.Lent.Release()
			s.Execute(&req, resp) // its connection has not ended yet
			answers <- resp.Stat
		}()
	}
	execute()
	<-h.enter
	execute()
	waitFor(t, "the second waits for the first", func() bool { return s.Stats().Joined == 1 })
	s.Close()
	if a, b := <-answers, <-answers; a == b || a != xdr.SystemErr && b != xdr.SystemErr {
		t.Errorf("answered with %v and %v", a, b)
	}
	if n := h.times(7); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// TestDuplicatesExpire: replies are forgotten in time, and without a cache at once.
func TestDuplicatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOnce()
		cfg := testConfig()
		cfg.Duplicates.Time = time.Minute
		s, c, end := pipePair(t, h, cfg, testConfig())
		defer end()
		for i, x := range []struct {
			wait time.Duration
			ran  int
		}{{0, 1}, {59 * time.Second, 1}, {time.Second, 2}, {0, 2}} {
			for end := time.Now().Add(x.wait); time.Now().Before(end); { // others call meanwhile
				time.Sleep(time.Second)
				noErr(t, tryCtx(t.Context(), c, withXID(8, wordCall(procList, 1))))
			}
			noErr(t, tryCtx(t.Context(), c, withXID(7, wordCall(procList, 1))))
			if n := h.times(7); n != x.ran {
				t.Errorf("call %d: %d have run, want %d", i, n, x.ran)
			}
		}
		if st := s.Stats(); st.Replayed != 2+59 || st.DRCEntries != 2 || st.DRCOctets != 2*(512+4) || st.DRCEvicted != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Hour) // a server that was stopped knows the calls still that come first
		if err := tryCtx(t.Context(), c, withXID(7, wordCall(procList, 1))); err != nil || h.times(7) != 2 {
			t.Errorf("after an hour without calls: %v, %d have run", err, h.times(7))
		}
	})
	h := newOnce()
	cfg := testConfig()
	cfg.Duplicates.Entries = -1
	_, c := pair(t, h, cfg, nil)
	for n := range 2 {
		mustDo(t, c, withXID(7, wordCall(procList, 1)))
		if h.times(7) != n+1 {
			t.Errorf("without a cache %d have run, want %d", h.times(7), n+1)
		}
	}
}
