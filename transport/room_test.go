package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
)

// TestRoom: a result larger than the room that the call gave fails the call, however it comes, and the connection lives
// on. Memory beyond MaxPayload is no room.
func TestRoom(t *testing.T) {
	type args struct{ N uint32 }
	type res struct {
		Data []byte `xdr:"ddp"`
	}
	fetch := service.Proc[args, res]{Prog: 0x20000001, Vers: 1, Proc: 1}
	mux := new(service.Mux)
	service.Handle(mux, fetch, func(_ context.Context, a *args) (*res, error) { return &res{make([]byte, a.N)}, nil })
	cfg := func(most int) *transport.Config {
		return &transport.Config{Binding: service.Bind(fetch), MaxPayload: most}
	}
	_, addr := served(t, overShared, mux, cfg(32<<20))
	for _, x := range []struct {
		network string
		room    int
		result  uint32
		want    *rpc.RoomError // nil: it fits
	}{
		{"rdma", 0, 300_000, nil},
		{"rdma", 100, 10, nil},
		{"rdma", 100, 200, &rpc.RoomError{Room: 100, Result: 200}}, // inline
		{"rdma", 100, 300_000, &rpc.RoomError{Room: 100}},
		{"rdma", 500_000, 300_000, nil},
		{"rdma", 500_000, 500_001, &rpc.RoomError{Room: 500_000}},  // by chunk
		{"rdma", 16 << 20, 5 << 20, &rpc.RoomError{Room: 1 << 20}}, // MaxPayload
		{"tcp", 0, 300_000, nil},
		{"tcp", 100, 200, &rpc.RoomError{Room: 100, Result: 200}},
		{"tcp", 100, 300_000, &rpc.RoomError{Room: 100, Result: 300_000}},
		{"tcp", 500_000, 500_001, &rpc.RoomError{Room: 500_000, Result: 500_001}},
		{"tcp", 16 << 20, 5 << 20, &rpc.RoomError{Room: 1 << 20, Result: 24 + 4 + 5<<20}}, // the whole record
	} {
		t.Run(fmt.Sprintf("%s, %d of %d", x.network, x.result, x.room), func(t *testing.T) {
			c := connect(t, x.network, addr, cfg(1<<20))
			got := res{make([]byte, x.room)}
			err := service.Invoke(testCtx(t), c, fetch, &args{x.result}, &got)
			room, ok := errors.AsType[*rpc.RoomError](err)
			switch {
			case x.want == nil && (err != nil || len(got.Data) != int(x.result)):
				t.Errorf("%d octets, %v", len(got.Data), err)
			case x.want != nil && (!ok || *room != *x.want):
				t.Errorf("%v", err)
			}
			if err := service.Invoke(testCtx(t), c, fetch, &args{1}, nil); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestRoomOfResults: results larger than MaxResults and the message of a reply that is not asked for fail their call,
// over RDMA and over TCP, and the connection lives on.
func TestRoomOfResults(t *testing.T) {
	_, addr := served(t, overShared, rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		d := xdr.NewDecoder(req.Args)
		resp.Results = append(resp.Results, make([]byte, d.Uint32())...)
	}), nil)
	for _, network := range []string{"rdma", "tcp"} {
		c := connect(t, network, addr, nil)
		for _, x := range []struct {
			most   int // Call.MaxResults
			result uint32
			fits   bool
		}{
			{0, 2000, true},
			{0, 100_000, false},
			{200_000, 100_000, true},
			{20_000, 100_000, false},
			{-1, 100_000, true},
		} {
			call := &rpc.Call{Prog: 400200, Vers: 1, Proc: 1, Args: xdr.AppendUint32(nil, x.result), MaxResults: x.most}
			var r rpc.Reply
			err := c.Do(testCtx(t), call, &r)
			room, ok := errors.AsType[*rpc.RoomError](err)
			switch {
			case x.fits && (err != nil || len(r.Results) != int(x.result)):
				t.Errorf("%s: %d octets in room for %d: %d come, %v", network, x.result, x.most, len(r.Results), err)
			case !x.fits && (!ok || room.Room < x.most || room.Room > x.most+5000):
				t.Errorf("%s: %d octets in room for %d: %v", network, x.result, x.most, err)
			case !x.fits && r.Results != nil:
				t.Errorf("%s: results beside an error", network)
			}
			r.Release()
		}
	}
}

// TestRefusedInvalidation: a reply that is dropped because its header is against the rules, but has taken its call's own
// memory, fails that call and no other.
func TestRefusedInvalidation(t *testing.T) {
	silent := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	c := rawServer(t, rawConfig(silent, 4096), nil, func(p *rawPeer, h *rpcrdma.Header, _ []byte) {
		if len(h.Write) == 0 {
			p.send(header(rpcrdma.Header{XID: h.XID}), rpcReply(h.XID))
			return
		}
		bad := words(h.XID, 1, 8, 77) // no such type
		if err := p.conn.SendInvalidate(testCtx(t), bad, region.STag(h.Write[0][0].Handle)); err != nil {
			t.Error(err)
		}
	})
	call := wordCall(procFill, 5000)
	call.Sink = make([]byte, 5000)
	err := try(t, c, call)
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonBadReply {
		t.Errorf("%v", err)
	}
	mustDo(t, c, &firstCall)
	if st := c.Stats(); st.InFlight != 0 || st.OctetsLent != 0 {
		t.Errorf("%+v", st)
	}
}

// TestNotSent: a call whose context is over when it is made is not sent, and its error is why the context has ended.
func TestNotSent(t *testing.T) {
	past, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	left, leave := context.WithCancelCause(t.Context())
	why := errors.New("of the caller")
	leave(why)
	s, addr := served(t, overShared, newEcho(), testConfig())
	for _, network := range []string{"rdma", "tcp"} {
		c := connect(t, network, addr, nil)
		for range 2 { // on a new connection and on a warm one
			before, served := c.Stats(), s.Stats()
			freed := 0
			call := *wordCall(procList, 3)
			call.Free = func() { freed++ }
			if err := tryCtx(past, c, &call); !errors.Is(err, context.DeadlineExceeded) || freed != 1 {
				t.Errorf("%s: %v, freed %d times", network, err, freed)
			}
			if err := tryCtx(left, c, wordCall(procList, 3)); !errors.Is(err, why) {
				t.Errorf("%s: %v", network, err)
			}
			if after := c.Stats(); after.Calls != before.Calls || after.InFlight != 0 || s.Stats().Calls != served.Calls {
				t.Errorf("%s: %d calls were sent", network, after.Calls-before.Calls)
			}
			mustDo(t, c, wordCall(procList, 3))
		}
	}
}

// TestNil: what has to be there is asked for, and nothing is left locked behind it.
func TestNil(t *testing.T) {
	_, addr := served(t, overShared, newEcho(), testConfig())
	for _, network := range []string{"rdma", "tcp"} {
		c := connect(t, network, addr, nil)
		var none context.Context
		if e, ok := errors.AsType[*rpc.RPCError](tryCtx(none, c, wordCall(procList, 3))); !ok || e.Reason != rpc.ReasonBadCall {
			t.Errorf("%s: nil context: %v", network, e)
		}
		mustDo(t, c, wordCall(procList, 3))
		if _, err := transport.Dial(none, "tcp", addr, nil); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("Dial: %v", err)
		}
	}
	s := &transport.Server{Handler: newEcho()}
	defer s.Close()
	for name, f := range map[string]func() error{
		"NewClient":       func() error { _, err := transport.NewClient(testCtx(t), nil, nil); return err },
		"NewStreamClient": func() error { _, err := transport.NewStreamClient(context.Background(), nil, nil); return err },
		"NewListener":     func() error { _, err := transport.NewListener(nil, nil); return err },
		"typed nil, RDMA": func() error { _, err := transport.NewClient(testCtx(t), (*net.TCPConn)(nil), nil); return err },
		"typed nil, TCP":  func() error { _, err := transport.NewStreamClient(testCtx(t), (*net.TCPConn)(nil), nil); return err },
		"typed nil, port": func() error { return s.ServeShared((*net.TCPListener)(nil)) },
		"Serve":           func() error { return s.Serve(nil) },
		"ServeConn":       func() error { return s.ServeConn(nil) },
		"ServeStreamConn": func() error { return s.ServeStreamConn(nil) },
		"ServeSharedConn": func() error { return s.ServeSharedConn(nil) },
	} {
		if err := f(); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m := rpc.Alloc(-1); len(m.Bytes()) != 0 {
		t.Error("Alloc(-1)")
	}
}
