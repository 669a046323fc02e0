package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	davecgh "github.com/davecgh/go-xdr/xdr2"
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
	"go.uber.org/zap"
)

const prog = 0x20000009

type (
	blob struct {
		Data []byte `xdr:"ddp"`
		Tail uint32
	}
	word  struct{ N uint32 }
	pair  struct{ P *word } // a nil P cannot be encoded
	codes struct {
		Code code   `xdr:"union"`
		N    uint32 `xdr:"unioncase=0"`
	}
)

type code int32

func (c code) Error() string { return fmt.Sprintf("code %d", int32(c)) }

var (
	echo   = service.Proc[blob, blob]{Prog: prog, Vers: 2, Proc: 1}
	panics = service.Proc[word, word]{Prog: prog, Vers: 2, Proc: 2}
	fails  = service.Proc[word, codes]{Prog: prog, Vers: 2, Proc: 3}
	broken = service.Proc[word, pair]{Prog: prog, Vers: 2, Proc: 4}
	void   = service.Proc[service.Void, service.Void]{Prog: prog, Vers: 4, Proc: 1, Once: true}
	fill   = service.Proc[word, blob]{Prog: prog, Vers: 2, Proc: 5, MaxResults: 64 << 10}
)

var failures = []error{
	nil, code(7), fmt.Errorf("wrapped: %w", code(-8)), errors.New("other"), code(0),
	&xdr.RPCStatusError{Accept: xdr.GarbageArgs}, &xdr.RPCStatusError{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak},
	fmt.Errorf("upstream: %w", &xdr.RPCStatusError{Accept: xdr.ProcUnavail}),
}

// newMux serves all procedures.
func newMux() *service.Mux {
	m := new(service.Mux)
	service.Handle(m, echo, func(_ context.Context, a *blob) (*blob, error) { return a, nil })
	service.Handle(m, panics, func(context.Context, *word) (*word, error) { panic("a bug") })
	service.Handle(m, fails, func(_ context.Context, a *word) (*codes, error) { return &codes{N: 6}, failures[a.N] })
	service.Handle(m, broken, func(_ context.Context, a *word) (*pair, error) {
		if a.N == 0 {
			return nil, nil
		}
		return &pair{a}, nil
	})
	service.Handle(m, void, func(context.Context, *service.Void) (*service.Void, error) { return nil, nil })
	service.Handle(m, fill, func(ctx context.Context, a *word) (*blob, error) {
		_, resp := service.Exchange(ctx)
		data := resp.Scratch(int(a.N))
		for i := range data {
			data[i] = byte(i)
		}
		return &blob{Data: data, Tail: a.N}, nil
	})
	return m
}

// clients are one over each transport, of a server of newMux.
func clients(t testing.TB, cfg *transport.Config) map[string]rpc.Caller {
	t.Helper()
	cfg.Binding = service.Bind(echo, panics, fails, broken, void, fill)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: newMux(), Config: cfg}
	served := make(chan error, 1)
	go func() { served <- s.ServeShared(l) }()
	rdma, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := transport.DialStream(t.Context(), "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdma.Close(); tcp.Close(); s.Close(); <-served })
	// On a busy machine the other's calls take longer than the server waits for a first octet.
	if err := tcp.Do(t.Context(), &rpc.Call{Prog: echo.Prog, Vers: echo.Vers}, new(rpc.Reply)); err != nil {
		t.Fatal(err)
	}
	return map[string]rpc.Caller{"rdma": rdma, "tcp": tcp}
}

// quiet keeps the errors of handlers from the output of the tests.
func quiet(t *testing.T) *bytes.Buffer {
	t.Helper()
	old, b := slog.Default(), &lockedBuffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(b, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })
	return &b.b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// TestItems: an item arrives in the memory that its caller gave, whichever way and however large.
func TestItems(t *testing.T) {
	for name, c := range clients(t, &transport.Config{MaxPayload: 17 << 20}) {
		for _, n := range []int{0, 1, 4, 3000, 60000, 1<<20 + 3, 16 << 20} {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(i * 7)
			}
			room := make([]byte, n+5)
			res := blob{Data: room[:0]}
			err := service.Invoke(t.Context(), c, echo, &blob{data, uint32(n)}, &res)
			if err != nil || !bytes.Equal(res.Data, data) || res.Tail != uint32(n) || &res.Data[:1][0] != &room[0] {
				t.Errorf("%s: %d octets came back as %d in other memory or with another tail %d, %v", name, n, len(res.Data), res.Tail, err)
			}
			res = blob{}
			err = service.Invoke(t.Context(), c, echo, &blob{data, 1}, &res)
			if err != nil || !bytes.Equal(res.Data, data) {
				t.Errorf("%s: %d octets came back without room as %d, %v", name, n, len(res.Data), err)
			}
		}
	}
}

// TestStatus: what goes wrong at the server is one error at the client, and the connection lives on.
func TestStatus(t *testing.T) {
	logged := quiet(t)
	short := service.Proc[service.Void, word]{Prog: prog, Vers: 2, Proc: 2}
	for name, c := range clients(t, &transport.Config{Logger: zap.NewNop()}) {
		refused := func(what string, err error, want xdr.RPCStatusError) {
			t.Helper()
			got, ok := errors.AsType[*xdr.RPCStatusError](err)
			if !ok || *got != want || !strings.HasPrefix(err.Error(), "service: program ") {
				t.Errorf("%s, %s: %v, want %v", name, what, err, &want)
			}
		}
		accept := func(s xdr.AcceptStat) xdr.RPCStatusError { return xdr.RPCStatusError{Accept: s} }
		call := func(p service.Proc[word, word]) error { return service.Invoke(t.Context(), c, p, nil, nil) }
		refused("another program", call(service.Proc[word, word]{Prog: 7, Vers: 2, Proc: 1}), accept(xdr.ProgUnavail))
		refused("another version", call(service.Proc[word, word]{Prog: prog, Vers: 3, Proc: 1}), xdr.RPCStatusError{Accept: xdr.ProgMismatch, Low: 2, High: 4})
		refused("another version, NULL", call(service.Proc[word, word]{Prog: prog, Vers: 5}), xdr.RPCStatusError{Accept: xdr.ProgMismatch, Low: 2, High: 4})
		refused("another procedure", call(service.Proc[word, word]{Prog: prog, Vers: 2, Proc: 9}), accept(xdr.ProcUnavail))
		refused("too few arguments", service.Invoke(t.Context(), c, short, nil, nil), accept(xdr.GarbageArgs))
		refused("too many arguments", service.Invoke(t.Context(), c, service.Proc[struct{ A, B uint32 }, word]{Prog: prog, Vers: 2, Proc: 2}, nil, nil), accept(xdr.GarbageArgs))
		refused("a panic", call(panics), accept(xdr.SystemErr))
		refused("a result that cannot be encoded", service.Invoke(t.Context(), c, broken, nil, nil), accept(xdr.SystemErr))
		refused("an error", service.Invoke(t.Context(), c, fails, &word{3}, nil), accept(xdr.SystemErr))
		refused("a status of zero as the error", service.Invoke(t.Context(), c, fails, &word{4}, nil), accept(xdr.SystemErr))
		refused("a status of RPC", service.Invoke(t.Context(), c, fails, &word{5}, nil), accept(xdr.GarbageArgs))
		refused("a denial", service.Invoke(t.Context(), c, fails, &word{6}, nil), xdr.RPCStatusError{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak})
		refused("the status of another server", service.Invoke(t.Context(), c, fails, &word{7}, nil), accept(xdr.SystemErr))

		var res codes
		if err := service.Invoke(t.Context(), c, fails, &word{1}, &res); err != code(7) || res.Code != 7 || res.N != 0 {
			t.Errorf("%s: %v, %+v", name, err, res)
		}
		if err := service.Invoke(t.Context(), c, fails, &word{2}, &res); !errors.Is(err, code(-8)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := service.Invoke(t.Context(), c, fails, &word{0}, &res); err != nil || res.N != 6 {
			t.Errorf("%s: %v, %+v", name, err, res)
		}
		if err := service.Invoke(t.Context(), c, void, nil, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := service.Invoke(t.Context(), c, service.Proc[service.Void, service.Void]{Prog: prog, Vers: 2}, nil, nil); err != nil {
			t.Errorf("%s, NULL: %v", name, err)
		}
	}
	for _, want := range []string{"err=other", "nil pointer", "upstream: ", "procedure=4"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q was not logged:\n%s", want, logged)
		}
	}
}

// TestClientErrors: what does not fit is refused where it is made, or by who gets it.
func TestClientErrors(t *testing.T) {
	for name, c := range clients(t, &transport.Config{MaxPayload: 100 << 10}) {
		is := func(what string, err error, reason rpc.Reason) {
			t.Helper()
			if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != reason {
				t.Errorf("%s, %s: %v, want %v", name, what, err, reason)
			}
		}
		is("an argument above MaxPayload", service.Invoke(t.Context(), c, echo, &blob{Data: make([]byte, 100<<10)}, nil), rpc.ReasonTooBig)
		if name == "rdma" { // over TCP all results come in the record of the reply
			is("a result above MaxResults", service.Invoke(t.Context(), c, fill, &word{90 << 10}, &blob{}), rpc.ReasonChunk)
			is("a result larger than its room", service.Invoke(t.Context(), c, fill, &word{9000}, &blob{Data: make([]byte, 8000)}), rpc.ReasonChunk)
		}
		err := service.Invoke(t.Context(), c, service.Proc[service.Void, word]{Prog: prog, Vers: 4, Proc: 1}, nil, nil)
		if _, ok := errors.AsType[*xdr.DecodeError](err); !ok {
			t.Errorf("%s, results of another type: %v, want a DecodeError", name, err)
		}
		if err := service.Invoke(t.Context(), c, service.Proc[pair, word]{Prog: prog, Vers: 2, Proc: 2}, nil, nil); !errors.Is(err, xdrreflect.ErrNil) {
			t.Errorf("%s: %v, want ErrNil", name, err)
		}
		if err := service.Invoke(t.Context(), c, service.Proc[word, map[int]int]{Prog: prog, Vers: 2, Proc: 2}, nil, nil); !errors.Is(err, xdrreflect.ErrType) {
			t.Errorf("%s: %v, want ErrType", name, err)
		}
		if err := service.Invoke(t.Context(), c, echo, &blob{Data: []byte("it lives"), Tail: 1}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOctets compares what Invoke and Mux send with another encoder: args and results of davecgh/go-xdr, without
// chunks, are the same octets.
func TestOctets(t *testing.T) {
	for name, c := range clients(t, new(transport.Config)) {
		for _, n := range []int{0, 3, 1000} {
			v := blob{bytes.Repeat([]byte{9}, n), 77}
			var want bytes.Buffer
			if _, err := davecgh.Marshal(&want, &v); err != nil {
				t.Fatal(err)
			}
			var reply rpc.Reply
			call := &rpc.Call{Prog: prog, Vers: 2, Proc: 1, Args: want.Bytes()}
			if err := c.Do(t.Context(), call, &reply); err != nil || !bytes.Equal(reply.Results, want.Bytes()) {
				t.Errorf("%s: %d octets came back as\n%x, %v; want\n%x", name, n, reply.Results, err, want.Bytes())
			}
			reply.Release()
		}
	}
}

// caller is a connection whose server is a function.
type caller func(call *rpc.Call, reply *rpc.Reply)

func (f caller) Do(_ context.Context, call *rpc.Call, reply *rpc.Reply) error {
	f(call, reply)
	return nil
}

// TestCopies: an item is not copied by this package: not from the caller, not to the handler, not from there, and not
// when it was placed in the caller's room.
func TestCopies(t *testing.T) {
	data := []byte("data")
	var call rpc.Call
	c := caller(func(c *rpc.Call, reply *rpc.Reply) {
		call = *c
		reply.Results, reply.Item = []byte{0, 0, 0, 4, 0, 0, 0, 1}, append(c.Sink[:0], "info"...)
	})
	res := blob{Data: make([]byte, 9)}
	room := &res.Data[0]
	once := func(call *rpc.Call) { call.Repeatable = false }
	if err := service.Invoke(t.Context(), c, echo, &blob{Data: data}, &res, once); err != nil || string(res.Data) != "info" || call.Repeatable {
		t.Fatalf("%q, %v", res.Data, err)
	}
	if &call.Item[0] != &data[0] || &res.Data[0] != room {
		t.Error("copied at the client")
	}

	var got, made []byte
	m := new(service.Mux)
	service.Handle(m, echo, func(_ context.Context, a *blob) (*blob, error) {
		got, made = a.Data, bytes.Clone(a.Data)
		return &blob{Data: made}, nil
	})
	req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: prog, Vers: 2, Proc: 1}, Args: []byte{0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 1}}
	var resp rpc.Response
	m.ServeRPC(t.Context(), req, &resp)
	if items := resp.Lent.Items; len(items) != 1 || &got[0] != &req.Args[4] || &items[0].Data[0] != &made[0] {
		t.Errorf("copied at the server: %v", items)
	}
}

// TestDeclarations: what cannot be served is said when the program starts.
func TestDeclarations(t *testing.T) {
	panicked := func(f func()) (what string) {
		defer func() { what = fmt.Sprint(recover()) }()
		f()
		return ""
	}
	type maps struct{ M map[string]int }
	if s := panicked(func() { service.Bind(service.Proc[maps, word]{}) }); !strings.Contains(s, xdrreflect.ErrType.Error()) {
		t.Error("Bind:", s)
	}
	m := newMux()
	if s := panicked(func() {
		service.Handle(m, echo, func(context.Context, *blob) (*blob, error) { return nil, nil })
	}); !strings.Contains(s, "served already") {
		t.Error("Handle, twice:", s)
	}
	if s := panicked(func() {
		service.Handle(m, service.Proc[word, uint32]{Prog: prog, Vers: 9, Proc: 1}, func(context.Context, *word) (*uint32, error) { return nil, nil })
	}); !strings.Contains(s, xdrreflect.ErrType.Error()) {
		t.Error("Handle:", s)
	}
	nothing := func(context.Context, *service.Void) (*service.Void, error) { return nil, nil }
	null := service.Proc[service.Void, service.Void]{Prog: prog, Vers: 9}
	for what, f := range map[string]func(){
		"procedure 0 is NULL":                           func() { service.Handle(m, null, nothing) },
		"program 0x20000009, version 9: procedure 0":    func() { service.Bind(null) },
		"version 4, procedure 1 is declared twice":      func() { service.Bind(echo, void, fill, void) },
		"version 8, procedure 1 has no handler":         func() { service.Handle[word, word](m, service.Proc[word, word]{Prog: prog, Vers: 8, Proc: 1}, nil) },
		`field data: tag "ddp", but it is not exported`: func() { service.Bind(service.Proc[unseen, word]{Prog: prog, Vers: 8, Proc: 1}) },
	} {
		if s := panicked(f); !strings.Contains(s, what) {
			t.Errorf("%s, want %s", s, what)
		}
	}
	table := service.Bind(echo, void, fill)
	for i, want := range []struct{ arg, result bool }{{true, true}, {false, false}, {false, true}} {
		if r := table[i]; r.Prog != prog || (r.Arg != nil) != want.arg || (r.Result != nil) != want.result {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if chunks.Covers(table, prog, 3) || !chunks.Covers(table, prog, 4) {
		t.Error("the binding speaks for another version, or not for its own")
	}
}

// unseen has an item that reflection cannot read.
type unseen struct {
	data []byte `xdr:"ddp"` //nolint:unused // nobody may
}

// TestIntercept: what runs around a call sees it, its error and its panic, and has the last word.
func TestIntercept(t *testing.T) {
	type key struct{}
	var saw []string
	m := newMux()
	m.Next = next{rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	say := func(name string) service.Interceptor {
		return func(ctx context.Context, req *rpc.Request, call func(context.Context) error) (err error) {
			defer func() {
				if e := recover(); e != nil {
					err = &xdr.RPCStatusError{Accept: xdr.GarbageArgs}
				}
				saw = append(saw, fmt.Sprintf("%s %d: %v", name, req.Proc, err))
			}()
			if got, _ := service.Exchange(ctx); got != req {
				t.Error("another request than that of Exchange")
			}
			return call(context.WithValue(ctx, key{}, name))
		}
	}
	inner := say("inner")
	m.Intercept = []service.Interceptor{say("outer"), func(ctx context.Context, req *rpc.Request, call func(context.Context) error) error {
		if ctx.Value(key{}) != "outer" {
			t.Error("not in the context of the first")
		}
		switch req.Cred.Flavor {
		case 7:
			return nil
		case 8:
			return code(8)
		}
		return inner(ctx, req, call)
	}}
	for _, tt := range []struct {
		name      string
		prog      uint32
		proc      uint32
		cred      xdr.AuthFlavor
		args      []byte
		stat      xdr.AcceptStat
		want, saw string
	}{
		{"a result", prog, 3, 0, []byte{0, 0, 0, 0}, xdr.Success, "\x00\x00\x00\x00\x00\x00\x00\x06", "[inner 3: <nil> outer 3: <nil>]"},
		{"an error", prog, 3, 0, []byte{0, 0, 0, 1}, xdr.Success, "\x00\x00\x00\x07", "[inner 3: code 7 outer 3: code 7]"},
		{"a panic", prog, 2, 0, []byte{0, 0, 0, 1}, xdr.GarbageArgs, "", "[inner 2: xdr: rpc call refused: GARBAGE_ARGS outer 2: xdr: rpc call refused: GARBAGE_ARGS]"},
		{"garbage", prog, 3, 0, nil, xdr.GarbageArgs, "", "[inner 3: xdr: rpc call refused: GARBAGE_ARGS outer 3: xdr: rpc call refused: GARBAGE_ARGS]"},
		{"left out", prog, 3, 7, []byte{0, 0, 0, 1}, xdr.Success, "\x00\x00\x00\x00\x00\x00\x00\x00", "[outer 3: <nil>]"},
		{"refused", prog, 3, 8, []byte{0, 0, 0, 0}, xdr.Success, "\x00\x00\x00\x08", "[outer 3: code 8]"},
		{"unknown", prog, 9, 0, nil, xdr.ProcUnavail, "", "[]"},
		{"NULL", prog, 0, 0, nil, xdr.Success, "", "[]"},
		{"of Next", 7, 3, 0, nil, xdr.Success, "", "[]"},
	} {
		saw = nil
		var resp rpc.Response
		req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: tt.prog, Vers: 2, Proc: tt.proc, Cred: xdr.Auth{Flavor: tt.cred}}, Args: tt.args}
		m.ServeRPC(t.Context(), req, &resp)
		if resp.Stat != tt.stat || string(resp.Results) != tt.want || fmt.Sprint(saw) != tt.saw {
			t.Errorf("%s: %v, %q, seen: %v; want %v, %q, %s", tt.name, resp.Stat, resp.Results, saw, tt.stat, tt.want, tt.saw)
		}
	}
}

// next is a handler with all methods, for program 7.
type next struct{ rpc.HandlerFunc }

func (next) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Prog == 7, Once: true, Lazy: true, Class: 3}
}

func (next) Ready(_ context.Context, req *rpc.Request) bool { return true }

// TestNext: the programs that a Mux does not serve are those of Next, with all that it says about them.
func TestNext(t *testing.T) {
	m := newMux()
	m.Next = next{}
	for _, tt := range []struct {
		prog, vers, proc                 uint32
		block, once, lazy, ready, classy bool
	}{
		{7, 1, 1, true, true, true, true, true},
		{8, 1, 1, false, true, true, true, true},
		{prog, 2, 1, true, false, false, false, false},
		{prog, 4, 1, true, true, false, false, false},
		{prog, 3, 1, true, false, false, false, false},
	} {
		req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: tt.prog, Vers: tt.vers, Proc: tt.proc}}
		d := m.Describe(req)
		got := []bool{d.Blocks, d.Once, d.Lazy, m.Ready(t.Context(), req), d.Class == 3}
		if want := []bool{tt.block, tt.once, tt.lazy, tt.ready, tt.classy}; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if req, resp := service.Exchange(t.Context()); req != nil || resp != nil {
		t.Error("an exchange out of nothing")
	}
}

// FuzzReply: whatever a server answers, Invoke returns it or an error, and the room of the caller stays his.
func FuzzReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4}, []byte(nil), false)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 4}, []byte{1, 2, 3, 4}, true)
	f.Add([]byte{0, 0, 0, 2}, []byte{}, true)
	f.Add([]byte{0, 0, 0, 0, 255, 255, 255, 255}, []byte(nil), false)
	f.Fuzz(func(t *testing.T, results, item []byte, placed bool) {
		room := make([]byte, 8)
		if !placed {
			item = nil
		}
		answer := caller(func(_ *rpc.Call, reply *rpc.Reply) { reply.Results, reply.Item = results, item })
		res := loadRes{Data: room[:0]}
		err := service.Invoke(t.Context(), answer, load, &loadArgs{"a"}, &res)
		var s status
		switch _, broken := errors.AsType[*xdr.DecodeError](err); {
		case broken:
		case errors.As(err, &s) && s == res.Status && s != 0:
		case err != nil:
			t.Fatal(err)
		default:
			want := item
			if item == nil {
				want = results[8:][:len(res.Data)]
			}
			if !bytes.Equal(res.Data, want) || len(res.Data) > 0 && len(res.Data) <= 8 && &res.Data[0] != &room[0] {
				t.Fatalf("%x, want %x in the room", res.Data, want)
			}
		}
	})
}
