package gss_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/gsstest"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/xdr"
)

const prog = 100003

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

// credential is rpc_gss_cred_t.
func credential(version, proc, seq, service uint32, handle []byte) xdr.Auth {
	return xdr.Auth{Flavor: xdr.RPCSECGSS, Body: xdr.AppendOpaque(words(version, proc, seq, service), handle)}
}

// peer is a client that can lie.
type peer struct {
	t      *testing.T
	s      *gss.Server
	c      gsstest.Context
	handle []byte
	addr   string
	now    time.Time
}

// ask sends a control message, or a call with a bad verifier.
func (p *peer) ask(cred xdr.Auth, proc uint32, verf xdr.Auth, args []byte) gss.Opened {
	h := xdr.CallHeader{XID: 7, RPCVers: 2, Prog: prog, Vers: 3, Proc: proc, Cred: cred, Verf: verf}
	return p.s.Open(p.addr, &h, bytes.Clone(args), p.now)
}

// call makes a call with a good verifier.
func (p *peer) call(cred xdr.Auth, proc uint32, args []byte) gss.Opened {
	h := xdr.CallHeader{XID: 7, RPCVers: 2, Prog: prog, Vers: 3, Proc: proc, Cred: cred}
	msg := xdr.AppendCall(nil, &h)
	return p.ask(cred, proc, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: p.c.AppendMIC(nil, msg[:len(msg)-8])}, args)
}

func (p *peer) data(seq, service uint32, args []byte) gss.Opened {
	return p.call(credential(1, 0, seq, service, p.handle), 1, args)
}

func token(name string, life time.Duration) []byte {
	t, _, _ := gsstest.Initiate(name, 1, life).Step(nil)
	return xdr.AppendOpaque(nil, t)
}

// join makes a context.
func (p *peer) join(name string) {
	p.t.Helper()
	o := p.ask(credential(1, 1, 0, 1, nil), 0, xdr.Auth{}, token(name, time.Hour))
	d := xdr.NewDecoder(o.Results)
	p.handle = bytes.Clone(d.Opaque(400))
	if o.Verdict != gss.Answer || !o.Call.Answered() || d.Uint32() != 0 || len(p.handle) == 0 || o.Call.Verifier().Flavor != xdr.RPCSECGSS {
		p.t.Fatalf("no context: %+v", o)
	}
	p.c = gsstest.Context{Name: name}
}

func newPeer(t *testing.T) *peer {
	return &peer{t: t, s: gss.NewServer(gsstest.Accept), addr: "192.0.2.1", now: time.Now()}
}

// integrity is what AppendResults makes of plain at the other end.
func (p *peer) integrity(seq uint32, plain []byte) []byte {
	body := append(words(seq), plain...)
	return xdr.AppendOpaque(xdr.AppendOpaque(nil, body), p.c.AppendMIC(nil, body))
}

func (p *peer) privacy(seq uint32, plain []byte) []byte {
	return xdr.AppendOpaque(nil, p.c.AppendWrap(nil, words(seq), plain))
}

// TestServices: arguments and results come through as they are, under each service, and no octet of them can change.
func TestServices(t *testing.T) {
	p := newPeer(t)
	p.join("alice")
	plain := words(1, 2, 3)
	seq := uint32(0)
	for i, args := range []func(uint32, []byte) []byte{func(_ uint32, b []byte) []byte { return b }, p.integrity, p.privacy} {
		service := uint32(i + 1)
		seq++
		o := p.data(seq, service, args(seq, plain))
		if o.Verdict != gss.Run || !bytes.Equal(o.Args, plain) || o.Call.Principal != (gss.Principal{Mechanism: "test", Name: "alice"}) {
			t.Errorf("service %d: %+v", service, o)
			continue
		}
		mic := p.c
		mic.Acceptor = false
		if v := o.Call.Verifier(); mic.VerifyMIC(words(seq), v.Body) != nil {
			t.Errorf("service %d: verifier %v", service, v)
		}
		if res := o.Call.AppendResults(nil, plain); service > 1 && bytes.Contains(res, plain) == (service == 3) || len(res)%4 != 0 || len(res) > len(plain)+gss.MaxOverhead {
			t.Errorf("service %d: results %x", service, res)
		}
		if service == 1 {
			continue
		}
		for i := range args(seq, plain) {
			seq++
			bad := args(seq, plain)
			bad[i] ^= 0x40
			// The pad of a token is nothing.
			if o := p.data(seq, service, bad); o.Verdict != gss.Garble && i < len(bad)-2 {
				t.Errorf("service %d, octet %d: %+v", service, i, o)
			}
			seq++
			if o := p.data(seq, service, args(seq, plain)[:i]); o.Verdict != gss.Garble {
				t.Errorf("service %d, %d octets: %+v", service, i, o)
			}
		}
	}
}

// TestLiars: what a server answers to those who are not what they say.
func TestLiars(t *testing.T) {
	p := newPeer(t)
	p.join("alice")
	good := xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 18)}
	for name, want := range map[string]struct {
		o    gss.Opened
		v    gss.Verdict
		stat xdr.AuthStat
	}{
		"no credential":          {p.call(xdr.Auth{Flavor: xdr.RPCSECGSS}, 1, nil), gss.Deny, xdr.AuthBadCred},
		"version 2":              {p.call(credential(2, 0, 1, 1, p.handle), 1, nil), gss.Deny, xdr.AuthBadCred},
		"gss_proc 4":             {p.call(credential(1, 4, 1, 1, p.handle), 1, nil), gss.Deny, xdr.AuthBadCred},
		"service 0":              {p.call(credential(1, 0, 1, 0, p.handle), 1, nil), gss.Deny, xdr.AuthBadCred},
		"service 4":              {p.call(credential(1, 0, 1, 4, p.handle), 1, nil), gss.Deny, xdr.AuthBadCred},
		"no handle":              {p.call(credential(1, 0, 1, 1, nil), 1, nil), gss.Deny, xdr.GSSCredProblem},
		"unknown handle":         {p.call(credential(1, 0, 1, 1, make([]byte, 16)), 1, nil), gss.Deny, xdr.GSSCredProblem},
		"long handle":            {p.call(credential(1, 0, 1, 1, append(p.handle, 0)), 1, nil), gss.Deny, xdr.GSSCredProblem},
		"no verifier":            {p.ask(credential(1, 0, 1, 1, p.handle), 1, xdr.Auth{}, nil), gss.Deny, xdr.AuthBadVerf},
		"wrong checksum":         {p.ask(credential(1, 0, 1, 1, p.handle), 1, good, nil), gss.Deny, xdr.GSSCredProblem},
		"short checksum":         {p.ask(credential(1, 0, 1, 1, p.handle), 1, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 3)}, nil), gss.Deny, xdr.GSSCredProblem},
		"MAXSEQ":                 {p.call(credential(1, 0, 1<<31, 1, p.handle), 1, nil), gss.Deny, xdr.GSSCtxProblem},
		"INIT of procedure 1":    {p.ask(credential(1, 1, 0, 1, nil), 1, xdr.Auth{}, token("x", time.Hour)), gss.Deny, xdr.AuthBadCred},
		"INIT with a handle":     {p.ask(credential(1, 1, 0, 1, p.handle), 0, xdr.Auth{}, token("x", time.Hour)), gss.Deny, xdr.AuthBadCred},
		"INIT without token":     {p.ask(credential(1, 1, 0, 1, nil), 0, xdr.Auth{}, nil), gss.Deny, xdr.AuthBadCred},
		"huge token":             {p.ask(credential(1, 1, 0, 1, nil), 0, xdr.Auth{}, xdr.AppendOpaque(nil, make([]byte, gss.MaxToken+4))), gss.Deny, xdr.AuthBadCred},
		"a token of 4 GiB":       {p.ask(credential(1, 1, 0, 1, nil), 0, xdr.Auth{}, words(1<<32-4)), gss.Deny, xdr.AuthBadCred},
		"CONTINUE of no INIT":    {p.ask(credential(1, 2, 0, 1, make([]byte, 16)), 0, xdr.Auth{}, token("x", time.Hour)), gss.Deny, xdr.GSSCredProblem},
		"CONTINUE of a context":  {p.ask(credential(1, 2, 0, 1, p.handle), 0, xdr.Auth{}, token("x", time.Hour)), gss.Deny, xdr.GSSCredProblem},
		"DESTROY of procedure 1": {p.call(credential(1, 3, 9, 1, p.handle), 1, nil), gss.Deny, xdr.AuthBadCred},
		"DESTROY of a stranger":  {p.ask(credential(1, 3, 9, 1, p.handle), 0, good, nil), gss.Deny, xdr.GSSCredProblem},
		"another number inside":  {p.data(10, 2, p.integrity(11, nil)), gss.Garble, 0},
		"odd arguments inside":   {p.data(12, 3, p.privacy(12, []byte{1})), gss.Garble, 0},
		"no number inside":       {p.data(13, 3, xdr.AppendOpaque(nil, p.c.AppendWrap(nil, []byte{1}))), gss.Garble, 0},
	} {
		if want.o.Verdict != want.v || want.o.Stat != want.stat {
			t.Errorf("%s: %+v", name, want.o)
		}
	}
	refused := p.ask(credential(1, 1, 0, 1, nil), 0, xdr.Auth{}, token("nobody", time.Hour))
	d := xdr.NewDecoder(refused.Results)
	if h, major := d.Opaque(400), d.Uint32(); refused.Verdict != gss.Answer || len(h) > 0 || major>>16 == 0 || refused.Call.Verifier().Flavor != xdr.AuthNone || !errors.Is(refused.Err, gsstest.ErrToken) {
		t.Errorf("refused: %+v", refused)
	}
	if o := p.call(credential(1, 3, 1000, 1, p.handle), 0, nil); o.Verdict != gss.Answer || !o.Call.Answered() || o.Call.Verifier().Flavor != xdr.RPCSECGSS || p.s.Contexts() != 0 {
		t.Errorf("DESTROY: %+v", o)
	}
	if o := p.call(credential(1, 3, 1001, 1, p.handle), 0, nil); o.Stat != xdr.GSSCredProblem {
		t.Errorf("DESTROY again: %+v", o)
	}
}

// TestWindow compares the window with a set of all that has come (RFC 2203 Section 5.3.3.1). A call whose checksum is
// wrong moves nothing.
func TestWindow(t *testing.T) {
	const size = 1024
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := newPeer(t)
	p.join("alice")
	seen, high := map[uint32]bool{}, uint32(0)
	for i := range 20_000 {
		seq := high + rnd.Uint32N(9)
		switch rnd.IntN(4) {
		case 0:
			seq = high - min(high, rnd.Uint32N(size+8))
		case 1:
			if rnd.IntN(20) == 0 {
				seq = high + rnd.Uint32N(3*size)
			}
		}
		if rnd.IntN(8) == 0 {
			bad := credential(1, 0, high+5*size, 1, p.handle)
			if o := p.ask(bad, 1, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 18)}, nil); o.Verdict != gss.Deny {
				t.Fatalf("%+v", o)
			}
		}
		want := gss.Run
		if seen[seq] || high >= size && seq <= high-size {
			want = gss.Drop
		}
		if o := p.data(seq, 1, nil); o.Verdict != want {
			t.Fatalf("seed %d, call %d: number %d of at most %d: %v, want %v", seed, i, seq, high, o.Verdict, want)
		}
		seen[seq] = true
		high = max(high, seq)
	}
}

// TestExpiry: a context that has ended is one that never was.
func TestExpiry(t *testing.T) {
	p := newPeer(t)
	p.join("alice")
	p.now = p.now.Add(59 * time.Minute)
	if o := p.data(1, 1, nil); o.Verdict != gss.Run {
		t.Errorf("%+v", o)
	}
	p.now = p.now.Add(2 * time.Minute)
	if o := p.data(2, 1, nil); o.Stat != xdr.GSSCredProblem || p.s.Contexts() != 0 {
		t.Errorf("%+v", o)
	}
}

// TestFlood: a client that makes contexts without end loses its own, the least used first; all together lose those of all.
func TestFlood(t *testing.T) {
	flood := newPeer(t)
	other := *flood
	other.addr = "192.0.2.2"
	other.join("bob")
	flood.join("used")
	used := *flood
	flood.join("first")
	first := flood.handle
	seq := uint32(0)
	for range 1024 {
		flood.join("alice")
		if seq++; used.data(seq, 1, nil).Verdict != gss.Run {
			t.Fatal("a context that is used is gone")
		}
	}
	if o := flood.call(credential(1, 0, 1, 1, first), 1, nil); o.Stat != xdr.GSSCredProblem || flood.s.Contexts() != 1025 {
		t.Errorf("%d contexts: %+v", flood.s.Contexts(), o)
	}
	if other.data(1, 1, nil).Verdict != gss.Run {
		t.Error("a client has lost its context to another one")
	}
	for i := range 10 {
		flood.addr = fmt.Sprint("198.51.100.", i)
		for range 1024 {
			flood.join("alice")
		}
	}
	if n := flood.s.Contexts(); n != 8192 {
		t.Errorf("%d contexts", n)
	}
}

// loop joins a client and a server without a network.
type loop struct {
	s       *gss.Server
	inits   int
	corrupt func(h *xdr.ReplyHeader, results []byte) []byte
}

func (l *loop) exchange(_ context.Context, cred xdr.Auth, args []byte) (xdr.ReplyHeader, []byte, error) {
	l.inits++
	h := xdr.CallHeader{XID: 7, RPCVers: 2, Prog: prog, Cred: cred}
	o := l.s.Open("client", &h, args, time.Now())
	if o.Verdict != gss.Answer {
		return xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: o.Stat}, nil, nil
	}
	r := xdr.ReplyHeader{Verf: o.Call.Verifier()}
	if l.corrupt != nil {
		o.Results = l.corrupt(&r, o.Results)
	}
	return r, o.Results, nil
}

// call makes a call, and returns what the server makes of it.
func (l *loop) call(c *gss.Client, args []byte) (*gss.Outgoing, gss.Opened, error) {
	out, err := c.Begin(context.Background(), l.exchange)
	if err != nil {
		return nil, gss.Opened{}, err
	}
	defer out.End()
	h := xdr.CallHeader{XID: 9, RPCVers: 2, Prog: prog, Vers: 3, Proc: 1}
	h.Cred, h.Verf = out.Cred()
	msg := xdr.AppendCall(nil, &h)
	out.Sign(msg[:len(msg)-h.Verf.Size()], h.Verf.Body)
	return out, l.s.Open("client", &h, out.AppendArgs(nil, args), time.Now()), nil
}

// TestClient: both ends together, in handshakes of several steps, under each service.
func TestClient(t *testing.T) {
	for legs := 1; legs < 4; legs++ {
		for _, service := range []gss.Service{gss.None, gss.Integrity, gss.Privacy} {
			l := &loop{s: gss.NewServer(gsstest.Accept)}
			c := gss.NewClient(service, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", legs, time.Hour), nil })
			for range 3 {
				out, o, err := l.call(c, words(1, 2))
				if err != nil || o.Verdict != gss.Run || !bytes.Equal(o.Args, words(1, 2)) {
					t.Fatalf("%d steps, %v: %+v, %v", legs, service, o, err)
				}
				h := xdr.ReplyHeader{Verf: o.Call.Verifier()}
				res, err := out.Open(&h, o.Call.AppendResults(nil, words(3, 4)))
				if err != nil || !bytes.Equal(res, words(3, 4)) {
					t.Errorf("%d steps, %v: %x, %v", legs, service, res, err)
				}
				// Neither the reply to another call nor one of somebody else is believed.
				if _, err := out.Open(&xdr.ReplyHeader{}, words(3, 4)); err == nil {
					t.Error("a reply without verifier is believed")
				}
				_, other, _ := l.call(c, nil)
				if _, err := out.Open(&xdr.ReplyHeader{Verf: other.Call.Verifier()}, other.Call.AppendResults(nil, nil)); err == nil {
					t.Error("the reply to another call is believed")
				}
			}
			if l.inits != legs || l.s.Contexts() != 1 {
				t.Errorf("%d messages for %d steps, %d contexts", l.inits, legs, l.s.Contexts())
			}
		}
	}
}

// TestClientRefuses: a client makes no context with a server that does not prove what it says.
func TestClientRefuses(t *testing.T) {
	for name, corrupt := range map[string]func(h *xdr.ReplyHeader, res []byte) []byte{
		"no verifier":    func(h *xdr.ReplyHeader, res []byte) []byte { h.Verf = xdr.Auth{}; return res },
		"another window": func(_ *xdr.ReplyHeader, res []byte) []byte { binary.BigEndian.PutUint32(res[28:], 1<<20); return res },
		"half an answer": func(_ *xdr.ReplyHeader, res []byte) []byte { return res[:20] },
		"no end":         func(_ *xdr.ReplyHeader, res []byte) []byte { binary.BigEndian.PutUint32(res[20:], 1); return res },
		"early end":      func(_ *xdr.ReplyHeader, res []byte) []byte { return append(words(0, 0, 0, 8), words(4, 0)...) },
		"not accepted":   func(h *xdr.ReplyHeader, res []byte) []byte { h.Accept = xdr.SystemErr; return res },
	} {
		l := &loop{s: gss.NewServer(gsstest.Accept), corrupt: corrupt}
		legs := 1
		if name == "early end" {
			legs = 2
		}
		c := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", legs, time.Hour), nil })
		if _, _, err := l.call(c, nil); err == nil {
			t.Errorf("%s: a context", name)
		}
	}
	l := &loop{s: gss.NewServer(gsstest.Accept)}
	c := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("nobody", 1, time.Hour), nil })
	_, _, err := l.call(c, nil)
	if e, ok := errors.AsType[*gss.StatusError](err); !ok || e.Err == nil || e.Err.Error() != "no: nobody" {
		t.Errorf("%v", err)
	}
}

// TestRenewal: a context that the server has lost is made again, and one that ends soon is not used.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &loop{s: gss.NewServer(gsstest.Accept)}
		c := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", 1, time.Hour), nil })
		if _, o, err := l.call(c, nil); err != nil || o.Verdict != gss.Run {
			t.Fatal(o, err)
		}
		l.s = gss.NewServer(gsstest.Accept) // it has restarted
		out, o, err := l.call(c, nil)
		if err != nil || o.Stat != xdr.GSSCredProblem {
			t.Fatal(o, err)
		}
		if out.Stale(&xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak}) {
			t.Error("a refusal of another kind is taken for a lost context")
		}
		if !out.Stale(&xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: o.Stat}) {
			t.Error("not stale")
		}
		if _, o, err := l.call(c, nil); err != nil || o.Verdict != gss.Run || l.inits != 2 {
			t.Fatal(o, err)
		}
		time.Sleep(time.Hour - 5*time.Second)
		if _, o, err := l.call(c, nil); err != nil || o.Verdict != gss.Run || l.inits != 3 {
			t.Fatal(o, err)
		}
	})
}

// TestNobodyRunsAhead: a call that was not sent yet does not fall out of the server's window.
func TestNobodyRunsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &loop{s: gss.NewServer(gsstest.Accept)}
		c := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", 1, time.Hour), nil })
		slow, err := c.Begin(t.Context(), l.exchange)
		if err != nil {
			t.Fatal(err)
		}
		for range 1023 {
			if _, o, err := l.call(c, nil); err != nil || o.Verdict != gss.Run {
				t.Fatal(o, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Begin(ctx, l.exchange); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call has run ahead: %v", err)
		}
		waited := make(chan error)
		go func() {
			_, _, err := l.call(c, nil)
			waited <- err
		}()
		synctest.Wait()
		slow.End()
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzOpen: no octets of a peer make a server panic, and nothing runs without the checksum of its context.
func FuzzOpen(f *testing.F) {
	f.Add(words(1, 1, 0, 1, 0), []byte{}, words(4, 0), uint32(0))
	f.Add(words(1, 0, 1, 2, 16, 0, 0, 0, 0), make([]byte, 18), words(8, 1, 2, 18), uint32(1))
	f.Add(words(1, 3, 1, 3, 16, 0, 0, 0, 0), make([]byte, 18), words(8, 1, 2), uint32(0))
	f.Fuzz(func(t *testing.T, cred, verf, args []byte, proc uint32) {
		if len(cred) > xdr.MaxAuthBody || len(verf) > xdr.MaxAuthBody {
			return
		}
		s := gss.NewServer(gsstest.Accept)
		h := xdr.CallHeader{RPCVers: 2, Prog: prog, Proc: proc, Cred: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: cred}, Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: verf}}
		if o := s.Open("fuzz", &h, args, time.Now()); o.Verdict == gss.Run {
			t.Fatalf("%+v", o)
		}
	})
}

// FuzzBody: arguments that are not as the client has made them are none, under each service.
func FuzzBody(f *testing.F) {
	p := &peer{c: gsstest.Context{Name: "alice"}}
	f.Add(true, p.integrity(1, words(1, 2)))
	f.Add(false, p.privacy(1, words(1, 2)))
	f.Fuzz(func(t *testing.T, integrity bool, args []byte) {
		p := newPeer(t)
		p.join("alice")
		service, want := uint32(3), p.privacy
		if integrity {
			service, want = 2, p.integrity
		}
		o := p.data(1, service, args)
		if o.Verdict == gss.Run && !bytes.HasPrefix(args, want(1, o.Args)[:len(args)-3]) {
			t.Fatalf("%x is taken for %x", args, o.Args)
		}
	})
}

// FuzzInit: no answer makes a context at a client, or has it panic, without the key of that.
func FuzzInit(f *testing.F) {
	s := gss.NewServer(gsstest.Accept)
	h := xdr.CallHeader{RPCVers: 2, Prog: prog, Cred: credential(1, 1, 0, 1, nil)}
	good := s.Open("fuzz", &h, token("alice", time.Hour), time.Now())
	f.Add(good.Results, make([]byte, 18))
	f.Add(good.Results[:24], make([]byte, 17))
	f.Add(words(0, 1, 0, 0, 1<<32-4), []byte{})
	f.Fuzz(func(t *testing.T, results, verf []byte) {
		l := &loop{s: gss.NewServer(gsstest.Accept), corrupt: func(h *xdr.ReplyHeader, _ []byte) []byte {
			h.Verf.Body = verf
			return bytes.Clone(results)
		}}
		c := gss.NewClient(gss.None, func(context.Context) (gss.Handshake, error) { return gsstest.Initiate("alice", 2, time.Hour), nil })
		if _, err := c.Begin(t.Context(), l.exchange); err == nil {
			t.Fatal("a context")
		}
	})
}
