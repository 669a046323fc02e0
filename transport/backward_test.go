package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Procedures of backer, beside those of echo.
const (
	procMeet = 20 // hands the connection's Backward to the test
	procBack = 21 // opaque<> in, the same out, as the client echoes it
	procDeep = 22 // u32 n in: n calls, each inside the one before, in turns
)

// backer is a forward program that calls back.
type backer struct {
	*echo
	met chan *rpc.Backward
}

func newBacker() *backer { return &backer{newEcho(), make(chan *rpc.Backward, 16)} }

func (b *backer) Describe(req *rpc.Request) rpc.Traits {
	t := b.echo.Describe(req)
	t.Blocks = t.Blocks || req.Proc == procBack || req.Proc == procDeep
	return t
}

func (b *backer) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch req.Proc {
	case procMeet:
		b.met <- req.Backward
	case procBack:
		forward(ctx, req.Backward, procEcho, req, resp)
	case procDeep:
		deeper(ctx, req.Backward, req, resp)
	default:
		b.echo.ServeRPC(ctx, req, resp)
	}
}

// doer is a Caller or a Backward.
type doer interface {
	Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error
}

// forward answers a call with what the other end answers to proc.
func forward(ctx context.Context, to doer, proc uint32, req *rpc.Request, resp *rpc.Response) {
	var r rpc.Reply
	defer r.Release()
	call := &rpc.Call{Prog: testProg, Vers: testVers, Proc: proc, Args: req.Args}
	if err := to.Do(ctx, call, &r); err != nil {
		resp.Stat = xdr.SystemErr
		return
	}
	resp.Results = append(resp.Results, r.Results...)
}

// deeper makes a call like the one that it serves, one less deep, to the other end.
func deeper(ctx context.Context, to doer, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	n := d.Uint32()
	if n == 0 {
		resp.Results = xdr.AppendUint32(resp.Results, 0)
		return
	}
	inner := *req
	inner.Args = xdr.AppendUint32(nil, n-1)
	forward(ctx, to, procDeep, &inner, resp)
}

// clientSide is the program of the backward direction.
type clientSide struct {
	*echo
	mu sync.Mutex
	c  rpc.Caller // for procDeep
}

func (s *clientSide) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != procDeep {
		s.echo.ServeRPC(ctx, req, resp)
		return
	}
	s.mu.Lock()
	c := s.c
	s.mu.Unlock()
	deeper(ctx, c, req, resp)
}

// backConfig is testConfig with the backward direction.
func backConfig(credits int, h rpc.Handler) *transport.Config {
	cfg := testConfig()
	cfg.Backward.Credits, cfg.Backward.Handler = credits, h
	return cfg
}

// backPair is a server and a client of it with both directions.
func backPair(t testing.TB, server, client int) (s *transport.Server, b *backer, c *transport.Client, cs *clientSide) {
	t.Helper()
	b, cs = newBacker(), &clientSide{echo: newEcho()}
	s, addr := startServer(t, b, backConfig(server, nil))
	cfg := backConfig(client, cs)
	cfg.Logger = zap.NewNop() // TestBackward has a handler panic
	c = dial(t, addr, cfg)
	cs.mu.Lock()
	cs.c = c
	cs.mu.Unlock()
	return s, b, c, cs
}

// meet returns the server's backward direction to c.
func meet(t testing.TB, b *backer, c rpc.Caller) *rpc.Backward {
	t.Helper()
	mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procMeet})
	return <-b.met
}

// connOf returns the only RDMA connection of s.
func connOf(s *transport.Server) *responder.Responder {
	return s.Responders()[0]
}

// backCaller makes a Backward a Caller for the helpers.
type backCaller struct{ *rpc.Backward }

func (backCaller) Stats() rpc.Stats { return rpc.Stats{} }
func (backCaller) Close() error     { return nil }

// callBack makes a backward call that has to succeed.
func callBack(t testing.TB, bw *rpc.Backward, call *rpc.Call) *rpc.Reply {
	t.Helper()
	return mustDo(t, backCaller{bw}, call)
}

// TestBackward: calls in both directions, one inside the other, with the client idle and
// busy.
func TestBackward(t *testing.T) {
	s, b, c, cs := backPair(t, 4, 4)
	bw := meet(t, b, c)
	if !bw.Enabled() {
		t.Error("the client has said that it accepts calls, but the server does not know")
	}
	p := filled(900)
	for range 20 { // the client is idle: nobody waits for a reply
		r := callBack(t, bw, echoCall(p))
		if d := xdr.NewDecoder(r.Results); !bytes.Equal(d.Opaque(1000), p) {
			t.Fatal("not the octets that were sent")
		}
	}
	if r := mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBack, Args: xdr.AppendOpaque(nil, p)}); len(r.Results) != 4+900+4 {
		t.Errorf("%d octets by way of the client", len(r.Results))
	}
	mustDo(t, c, wordCall(procDeep, 6))
	wantStatus(t, backCaller{bw}, &rpc.Call{Prog: 7}, xdr.ProgUnavail)
	wantStatus(t, backCaller{bw}, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procPanic}, xdr.SystemErr)
	if again := meet(t, b, c); again != bw {
		t.Error("two calls on one connection have different backward directions")
	}
	st, ct := s.Stats(), c.Stats()
	if want := uint64(20 + 1 + 3 + 2); st.BackwardCalls != want || st.BackwardReplies != want || ct.BackwardCalls != want || ct.BackwardReplies != want {
		t.Errorf("server %d/%d, client %d/%d, want %d", st.BackwardCalls, st.BackwardReplies, ct.BackwardCalls, ct.BackwardReplies, want)
	}
	if st.Calls != ct.Calls || st.Replies != ct.Replies || st.Dropped+ct.Dropped != 0 {
		t.Errorf("server %+v\nclient %+v", st, ct)
	}
	_ = cs
}

// TestBackwardRefused: nothing is sent to a client that has not enabled the direction, by
// a server that has not, or that does not fit inline; each with its error.
func TestBackwardRefused(t *testing.T) {
	for _, tc := range []struct {
		name           string
		server, client int
		want           error
	}{
		{"neither", 0, 0, rpc.ErrBackwardOff},
		{"client only", 0, 4, rpc.ErrBackwardOff},
		{"server only", 4, 0, rpc.ErrBackwardPeer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBacker()
			_, addr := startServer(t, b, backConfig(tc.server, nil))
			cfg := testConfig()
			if tc.client > 0 {
				cfg = backConfig(tc.client, newEcho())
			}
			c := dial(t, addr, cfg)
			bw := meet(t, b, c)
			if bw.Enabled() {
				t.Error("enabled")
			}
			freed := false
			var r rpc.Reply
			err := bw.Do(testCtx(t), &rpc.Call{Prog: testProg, Vers: testVers, Free: func() { freed = true }}, &r)
			e, ok := errors.AsType[*rpc.RPCError](err)
			if !ok || e.Reason != rpc.ReasonBackward || !errors.Is(err, tc.want) || !freed {
				t.Errorf("%v, freed %v", err, freed)
			}
			mustDo(t, c, &nullCall)
		})
	}
	t.Run("too long", func(t *testing.T) {
		_, b, c, _ := backPair(t, 4, 4)
		bw := meet(t, b, c)
		err := try(t, backCaller{bw}, echoCall(filled(4096)))
		if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonBackward || !errors.Is(err, rpcrdma.ErrInline) {
			t.Errorf("%v", err)
		}
		callBack(t, bw, echoCall(filled(3900)))
	})
	t.Run("reply too long", func(t *testing.T) {
		_, b, c, _ := backPair(t, 4, 4)
		err := try(t, backCaller{meet(t, b, c)}, wordCall(procFill, 5000))
		if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonChunk {
			t.Errorf("%v", err)
		}
		mustDo(t, c, &nullCall)
	})
}

// TestBackwardEnd: the connection is lost with calls in both directions outstanding; what
// is kept of it is safe to use.
func TestBackwardEnd(t *testing.T) {
	for _, name := range []string{"client closes", "client aborts", "server closes"} {
		t.Run(name, func(t *testing.T) {
			s, b, c, cs := backPair(t, 4, 4)
			bw := meet(t, b, c)
			callBack(t, bw, &nullCall) // brings the credits
			got := make(chan error, 4)
			block := &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}
			for range 2 {
				go func() { got <- try(t, c, block) }()
				go func() { got <- try(t, backCaller{bw}, block) }()
			}
			for range 2 {
				<-cs.enter
				<-b.enter
			}
			switch name {
			case "client closes":
				c.Close()
			case "client aborts":
				c.Conn().Abort(nil)
			default:
				s.Close()
			}
			for range 4 {
				if err := <-got; !isOpError(err) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("%v", err)
				}
			}
			var r rpc.Reply
			if err := bw.Do(testCtx(t), &nullCall, &r); !isOpError(err) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
	t.Run("never used before", func(t *testing.T) {
		_, b, c, _ := backPair(t, 4, 4)
		bw := meet(t, b, c)
		c.Close()
		waitFor(t, "the server sees the end", func() bool {
			err := try(t, backCaller{bw}, &nullCall)
			return isOpError(err) && errors.Is(err, net.ErrClosed)
		})
	})
}

// TestBackwardStream: the same API over record-marked TCP, where the upper layer says that
// the client takes calls.
func TestBackwardStream(t *testing.T) {
	b, cs := newBacker(), &clientSide{echo: newEcho()}
	_, addr := served(t, overShared, b, backConfig(2, nil))
	c := dialStream(t, addr, backConfig(2, cs))
	cs.c = c
	bw := meet(t, b, c)
	if err := try(t, backCaller{bw}, &nullCall); !errors.Is(err, rpc.ErrBackwardPeer) {
		t.Errorf("before Enable: %v", err)
	}
	bw.Enable()
	p := filled(9001)
	large := echoCall(p)
	err := try(t, backCaller{bw}, large)
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonTooBig {
		t.Errorf("a reply larger than the call allows: %v", err)
	}
	large.MaxResults = 10_000
	r := callBack(t, bw, large)
	if d := xdr.NewDecoder(r.Results); !bytes.Equal(d.Opaque(10_000), p) {
		t.Error("not the octets that were sent")
	}
	mustDo(t, c, wordCall(procDeep, 4))
	block := &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}
	got := make(chan error, 3)
	for range 3 {
		go func() { got <- try(t, backCaller{bw}, block) }()
	}
	<-cs.enter
	<-cs.enter
	select {
	case <-cs.enter:
		t.Error("three calls at a time, want at most two")
	case <-time.After(10 * time.Millisecond):
	}
	cs.leave <- struct{}{}
	<-cs.enter
	if err := <-got; err != nil {
		t.Error(err)
	}
	c.Close()
	for range 2 {
		if err := <-got; !isOpError(err) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("at the end: %v", err)
		}
	}
	if err := try(t, backCaller{bw}, &nullCall); !isOpError(err) {
		t.Errorf("after the end: %v", err)
	}
}
