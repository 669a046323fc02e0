package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/gsstest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// knows answers who calls, and records how the call was protected.
type knows struct {
	*once
	calls chan gss.Call
}

func (h *knows) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if g := req.GSS; g != nil {
		h.calls <- gss.Call{Principal: g.Principal, Service: g.Service}
	}
	h.once.ServeRPC(ctx, req, resp)
}

// gssServer serves h over both transports, and returns dialers of them by name.
func gssServer(t *testing.T, h rpc.Handler) (*transport.Server, map[string]func(*gss.Client) redial.Conn) {
	t.Helper()
	return gssServerBy(t, h, gsstest.Accept)
}

// gssServerBy is gssServer with another acceptor.
func gssServerBy(t *testing.T, h rpc.Handler, accept func() gss.Handshake) (*transport.Server, map[string]func(*gss.Client) redial.Conn) {
	t.Helper()
	cfg := testConfig()
	cfg.GSS.Accept = accept
	s, addr := startServer(t, h, cfg)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return s, map[string]func(*gss.Client) redial.Conn{
		"rdma": func(g *gss.Client) redial.Conn {
			cfg := testConfig()
			cfg.GSS.Client = g
			return dial(t, addr, cfg)
		},
		"tcp": func(g *gss.Client) redial.Conn {
			cfg := testConfig()
			cfg.GSS.Client = g
			c := must(transport.DialStream(testCtx(t), "tcp", l.Addr().String(), cfg))(t)
			t.Cleanup(func() { c.Close() })
			return c
		},
	}
}

// alice makes contexts of a principal.
func alice(s gss.Service) *gss.Client {
	return gss.NewClient(s, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", 2, time.Hour), nil })
}

// inGSS is call in the context of Config.GSS.
func inGSS(call *rpc.Call) *rpc.Call {
	c := *call
	c.Cred = xdr.Auth{Flavor: xdr.RPCSECGSS}
	return &c
}

// TestGSSContext: calls of all sizes, with chunks and without, under each service and over each transport. Only under
// none is anything reduced (RFC 8166 Section 8.2.2.3).
func TestGSSContext(t *testing.T) {
	h := &knows{newOnce(), make(chan gss.Call, 1)}
	s, dialers := gssServer(t, h)
	for network, dial := range dialers {
		for _, service := range []gss.Service{gss.None, gss.Integrity, gss.Privacy} {
			t.Run(fmt.Sprint(network, "/", service), func(t *testing.T) {
				c := dial(alice(service))
				first := s.Stats()
				for _, n := range []int{0, 3, 1000, 5001, 70_001, 1 << 20} {
					before := s.Stats()
					p := filled(n)
					freed := 0
					call := inGSS(echoCall(p))
					call.Sink, call.Free = make([]byte, max(n, 1)), func() { freed++ }
					r := mustDo(t, c, call)
					if who := <-h.calls; who.Principal.Name != "alice" || who.Service != service {
						t.Errorf("called by %+v", who)
					}
					checkEcho(t, r, p, call.Sink)
					reduced := network == "rdma" && service == gss.None && n > 4096
					if r.Placed != reduced && n > 4096 || r.Item == nil || freed != 1 {
						t.Errorf("%d octets: placed %v, item of %d, freed %d times", n, r.Placed, len(r.Item), freed)
					}
					if read := s.Stats().OctetsRead - before.OctetsRead; reduced && read != uint64(n) || network == "rdma" && !reduced && n > 4096 && read <= uint64(n) {
						t.Errorf("%d octets by RDMA Read of %d", read, n)
					}
				}
				if e, ok := errors.AsType[*xdr.RPCStatusError](do(t, c, inGSS(&rpc.Call{Prog: testProg, Vers: testVers, Proc: 99}))); !ok || e.Accept != xdr.ProcUnavail {
					t.Errorf("a procedure that is not there: %+v", e)
				}
				<-h.calls
				wantRoom(t, c)
				<-h.calls
				now, by := s.Stats().SecurityStats, first.SecurityStats
				if a, b := [...]uint64{now.GSSNone, now.GSSIntegrity, now.GSSPrivacy}, [...]uint64{by.GSSNone, by.GSSIntegrity, by.GSSPrivacy}; a[service-1]-b[service-1] != 8 || now.GSSContexts != by.GSSContexts+1 {
					t.Errorf("counted: %+v, then %+v", by, now)
				}
			})
		}
	}
}

// do makes a call, and returns why it has no results.
func do(t *testing.T, c rpc.Caller, call *rpc.Call) error {
	var r rpc.Reply
	defer r.Release()
	if err := c.Do(testCtx(t), call, &r); err != nil {
		return err
	}
	return r.Header.Err()
}

// wantRoom: a result that is larger than its sink is refused under GSS too.
func wantRoom(t *testing.T, c rpc.Caller) {
	t.Helper()
	call := inGSS(wordCall(procFill, 600))
	call.Sink = make([]byte, 500)
	err := do(t, c, call)
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonTooBig && e.Reason != rpc.ReasonChunk {
		t.Errorf("600 octets in a sink of 500: %v", err)
	}
}

// TestGSSOnce: a call that must not run twice is answered from the cache when it comes again, with another sequence
// number, over another connection, in another context and under another service; the reply is protected anew. Another
// principal's is a call of its own, and so is the same with other arguments.
func TestGSSOnce(t *testing.T) {
	h := newOnce()
	s, dialers := gssServer(t, h)
	shared := alice(gss.Privacy)
	tcp := dialers["tcp"](shared)
	call := func(proc, word uint32) *rpc.Call { return inGSS(withXID(0xabcd, wordCall(proc, word))) }
	want := bytes.Clone(mustDo(t, tcp, call(procList, 3)).Results)
	for name, c := range map[string]rpc.Caller{
		"same connection": tcp, "another connection": dialers["tcp"](shared), "another context": dialers["tcp"](alice(gss.Privacy)),
		"integrity": dialers["tcp"](alice(gss.Integrity)), "rdma": dialers["rdma"](alice(gss.None)), "rdma, privacy": dialers["rdma"](shared),
	} {
		if r := mustDo(t, c, call(procList, 3)); !bytes.Equal(r.Results, want) {
			t.Errorf("%s: %x", name, r.Results)
		}
	}
	if n, st := h.times(0xabcd), s.Stats(); n != 1 || st.Replayed != 6 {
		t.Fatalf("%d calls ran, %d were replayed", n, st.Replayed)
	}
	mustDo(t, tcp, call(procList, 4))
	bob := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("bob", 1, time.Hour), nil })
	mustDo(t, dialers["tcp"](bob), call(procList, 3))
	plain := withXID(0xabcd, wordCall(procList, 3))
	plain.Cred = (&xdr.SysCred{MachineName: "alice"}).Auth()
	mustDo(t, tcp, plain)
	if n := h.times(0xabcd); n != 4 {
		t.Errorf("%d calls ran, want 4", n)
	}
}

// TestGSSRecovers: a client whose context the server has lost makes another one, and the call runs once.
func TestGSSRecovers(t *testing.T) {
	h := newOnce()
	_, a := gssServer(t, newOnce())
	_, b := gssServer(t, h)
	xid := uint32(1)
	for network := range a {
		for _, service := range []gss.Service{gss.None, gss.Integrity, gss.Privacy} {
			g := alice(service)
			xid++
			mustDo(t, a[network](g), inGSS(withXID(1, wordCall(procList, 3))))
			freed := 0
			call := inGSS(withXID(xid, itemCall(procEcho, filled(9000))))
			call.Sink, call.Free = make([]byte, 9000), func() { freed++ }
			checkEcho(t, mustDo(t, b[network](g), call), filled(9000), call.Sink)
			if h.times(xid) != 1 || freed != 1 {
				t.Errorf("%s, %v: ran %d times, freed %d times", network, service, h.times(xid), freed)
			}
		}
	}
}

// TestGSSNobody: without a context there is no call, and the error says why.
func TestGSSNobody(t *testing.T) {
	s, dialers := gssServer(t, rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) { t.Error("executed") }))
	for network, dial := range dialers {
		nobody := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("nobody", 1, time.Hour), nil })
		before := s.Stats().GSSRefused
		if e, ok := errors.AsType[*gss.StatusError](do(t, dial(nobody), inGSS(wordCall(procList, 3)))); !ok || e.Err == nil || s.Stats().GSSRefused != before+1 {
			t.Errorf("%s: %v", network, e)
		}
		if e, ok := errors.AsType[*rpc.RPCError](do(t, dial(nil), inGSS(wordCall(procList, 3)))); !ok || e.Reason != rpc.ReasonBadCall {
			t.Errorf("%s: %v", network, e)
		}
		forged := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return forger{}, nil })
		if err := do(t, dial(forged), inGSS(wordCall(procList, 3))); err == nil {
			t.Errorf("%s: a context without its key is one", network)
		}
	}
}

// forger claims to be alice, and does not have her key.
type forger struct{}

func (forger) Step(token []byte) ([]byte, gss.Context, error) {
	if token == nil {
		return gsstest.Initiate("alice", 1, time.Hour).Step(nil)
	}
	return nil, &gsstest.Context{Name: "mallory", End: time.Now().Add(time.Hour)}, nil
}

// TestGSSConfig: what would leave a call unprotected is refused.
func TestGSSConfig(t *testing.T) {
	cfg := testConfig()
	cfg.GSS.Accept, cfg.AnyCred = gsstest.Accept, true
	if err := cfg.Check(); !errors.Is(err, rpc.ErrConfig) {
		t.Error(err)
	}
	cfg.AnyCred = false
	if _, err := transport.Listen("tcp", "127.0.0.1:0", cfg); !errors.Is(err, rpc.ErrConfig) {
		t.Error(err)
	}
}

// watchedContext tells when its tokens are made and taken.
type watchedContext struct {
	gss.Context
	wrap, unwrap func(octets int)
}

func (c *watchedContext) AppendWrap(b []byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	c.wrap(n)
	return c.Context.AppendWrap(b, parts...)
}

func (c *watchedContext) Unwrap(token []byte) ([]byte, error) {
	c.unwrap(len(token))
	return c.Context.Unwrap(token)
}

// watching is an acceptor of such contexts.
type watching struct {
	gss.Handshake
	wrap, unwrap func(octets int)
}

func (w *watching) Step(token []byte) ([]byte, gss.Context, error) {
	reply, c, err := w.Handshake.Step(token)
	if c != nil {
		c = &watchedContext{c, w.wrap, w.unwrap}
	}
	return reply, c, err
}

// TestGSSLongUnwrap: while a long call is decrypted, others of its connection are read and answered.
func TestGSSLongUnwrap(t *testing.T) {
	inside, hold := make(chan struct{}, 2), make(chan struct{})
	unwrap := func(n int) {
		if n > 500_000 {
			inside <- struct{}{}
			<-hold
		}
	}
	h := newOnce()
	_, dialers := gssServerBy(t, h, func() gss.Handshake { return &watching{gsstest.Accept(), func(int) {}, unwrap} })
	var long []func()
	for _, dial := range dialers {
		c := dial(alice(gss.Privacy))
		mustDo(t, c, inGSS(wordCall(procList, 3)))
		done := make(chan error, 1)
		call := inGSS(echoCall(filled(600_000)))
		call.Sink = make([]byte, 600_000)
		go func() {
			var r rpc.Reply
			defer r.Release()
			done <- errors.Join(c.Do(testCtx(t), call, &r), r.Header.Err())
		}()
		<-inside
		mustDo(t, c, inGSS(wordCall(procList, 4)))
		long = append(long, func() {
			if err := <-done; err != nil {
				t.Error("the long call: ", err)
			}
		})
	}
	close(hold)
	for _, wait := range long {
		wait()
	}
}

// TestGSSMemory: the memory in which a reply is protected counts, and that of its data, which only the plain arguments tell.
func TestGSSMemory(t *testing.T) {
	const size = 1 << 20
	var s *transport.Server
	held := make(chan int64, 1)
	wrap := func(n int) {
		if n > size {
			held <- s.Stats().Held
		}
	}
	read := rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) { // NFSv3 READ
		if req.Prog == 100003 && req.Proc == 6 {
			resp.Results = append(resp.Results, words(0, 0, size, 1)...)
			resp.AppendItem(resp.Buffer(size))
		}
	})
	s, dialers := gssServerBy(t, read, func() gss.Handshake { return &watching{gsstest.Accept(), wrap, func(int) {}} })
	for network, dial := range dialers {
		call := inGSS(&rpc.Call{Prog: 100003, Vers: 3, Proc: 6, Args: append(words(4, 7, 0, 0), words(size)...), Sink: make([]byte, size), MaxResults: 1000})
		r := mustDo(t, dial(alice(gss.Privacy)), call)
		if len(r.Item) != size {
			t.Errorf("%s: %d octets", network, len(r.Item))
		}
		if n := <-held; n < 2*size || n > 2*size+64<<10 {
			t.Errorf("%s: %d octets are held", network, n)
		}
		waitFor(t, "they are back", func() bool { return s.Stats().Held < size }) // the reply may come first
	}
}
