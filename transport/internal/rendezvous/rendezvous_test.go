package rendezvous_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }

var errClosed = errors.New("closed")

func acceptor() *rendezvous.Acceptor[string] {
	return &rendezvous.Acceptor[string]{MaxConns: 16, Life: time.Minute, Closed: errClosed, Logger: zap.NewNop()}
}

// Golden octets, from docs/push.x and docs/push.md.
func TestWire(t *testing.T) {
	k := rendezvous.Token(rdmaptest.Hex(t, "303132333435363738393a3b3c3d3e3f"))
	if got, want := rendezvous.PrivateData(k), rdmaptest.Hex(t, "7374616773696465 303132333435363738393a3b3c3d3e3f"); !bytes.Equal(got, want) {
		t.Errorf("private data %x, want %x", got, want)
	}
	p := rendezvous.Place{Token: k, Addr: ":20050", Milliseconds: 10000}
	want := rdmaptest.Hex(t, "303132333435363738393a3b3c3d3e3f 00000006 3a3230303530 0000 00002710")
	if got := xdr.Encode(nil, &p); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for n := range want {
		d := xdr.NewDecoder(want[:n])
		if xdr.Decode(&d, new(rendezvous.Place)).End() == nil {
			t.Errorf("%d octets parse", n)
		}
	}
}

// A token is good once, as it is, until it is old or withdrawn.
func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := acceptor()
		used, old, gone := a.Offer("used", ":1").Token, a.Offer("old", ":1").Token, a.Offer("gone", ":1").Token
		if s, ok := a.Redeem(rendezvous.PrivateData(used)); !ok || s != "used" {
			t.Error(s, ok)
		}
		a.Withdraw(gone)
		time.Sleep(a.Life + 1)
		fresh := rendezvous.PrivateData(a.Offer("fresh", ":1").Token)
		for what, data := range map[string][]byte{
			"nothing": nil, "zeros": rendezvous.PrivateData(rendezvous.Token{}), "used": rendezvous.PrivateData(used),
			"old": rendezvous.PrivateData(old), "withdrawn": rendezvous.PrivateData(gone), "half": fresh[:16], "more": append(fresh[:24:24], 0),
		} {
			if s, ok := a.Redeem(data); ok || s != "" {
				t.Errorf("%s: %q %v", what, s, ok)
			}
		}
		if s, ok := a.Redeem(fresh); !ok || s != "fresh" {
			t.Error(s, ok)
		}
	})
}

// A connection finds what its token is for; one without is rejected; Close ends them all, and Serve.
func TestServe(t *testing.T) {
	a := acceptor()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 1)
	ended := make(chan error)
	go func() {
		ended <- a.Serve(l, func(nc net.Conn) error {
			return a.ServeConn(nc, new(rdmap.Config), func(c *rdmap.Conn, s string) error {
				served <- s
				return c.Serve()
			})
		})
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at := a.Offer("it", ":"+port)
	if at.Milliseconds != 60_000 {
		t.Errorf("%+v", at)
	}
	c, err := rendezvous.Dial(t.Context(), &at, "127.0.0.1", nil, new(rdmap.Config))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s := <-served; s != "it" || a.Conns() != 1 {
		t.Error(s, a.Conns())
	}
	_, err = rendezvous.Dial(t.Context(), &at, "127.0.0.1", nil, new(rdmap.Config))
	if _, ok := errors.AsType[*verbs.RejectError](err); !ok || a.Rejected.Load() != 1 {
		t.Error("a second connection:", err)
	}
	a.Close()
	if err := <-ended; !errors.Is(err, errClosed) {
		t.Error(err)
	}
	go c.Serve() //nolint:errcheck // it ends
	<-c.Done()
	if err := a.Serve(l, nil); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	at.Milliseconds = 0
	if _, err := rendezvous.Dial(t.Context(), &at, "127.0.0.1", nil, new(rdmap.Config)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("an old token is not even shown:", err)
	}
}

// A host that connects and shows no token does not take the places of others.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := acceptor() // an eighth: 2
		defer a.Close()
		strangers(t, func(nc net.Conn) error {
			return a.ServeConn(nc, new(rdmap.Config), func(*rdmap.Conn, string) error { return errors.New("without a token") })
		}, rendezvous.ErrConns)
	})
}

// Keep tries until it succeeds, its error is final, or its context ends, and waits longer each time.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again, last := errors.New("again"), errors.New("last")
		keep := func(ctx context.Context, errs ...error) (time.Duration, error) {
			began := time.Now()
			err := rendezvous.Keep(ctx, time.Second, 3*time.Second, func() error {
				err := errs[0]
				errs = errs[min(1, len(errs)-1):]
				return err
			}, func(err error) bool { return errors.Is(err, last) })
			return time.Since(began), err
		}
		for _, tt := range []struct {
			errs        []error
			want        error
			least, most time.Duration
		}{
			{[]error{nil}, nil, 0, 0},
			{[]error{last}, last, 0, 0},
			{[]error{again, nil}, nil, time.Second / 2, time.Second},
			{[]error{again, again, again, again, last}, last, (1 + 2 + 3 + 3) * time.Second / 2, (1 + 2 + 3 + 3) * time.Second},
		} {
			if d, err := keep(t.Context(), tt.errs...); !errors.Is(err, tt.want) || d < tt.least || d > tt.most {
				t.Errorf("%v: %v after %v", tt.errs, err, d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if d, err := keep(ctx, again); d != 10*time.Second || !errors.Is(err, again) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(d, err)
		}
	})
}

// strangers checks that a host which connects and does not show who it is cannot take the places of others. serve
// serves one connection, and gives strangers of one host two places; it returns an error that wraps refused when
// these are taken, and another error when a stranger has been silent for too long. Call strangers in a bubble of
// synctest.
func strangers(t *testing.T, serve func(net.Conn) error, refused error) {
	t.Helper()
	var ends []net.Conn
	served := make(chan error, 16)
	knock := func(addr string) {
		a, b := rdmaptest.Pipe()
		ends = append(ends, a)
		go func() { served <- serve(fromConn{b, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}) }()
		synctest.Wait()
	}
	for _, addr := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "192.0.2.1:3"} {
		knock(addr)
	}
	if err := <-served; !errors.Is(err, refused) || len(served) != 0 {
		t.Errorf("the third of a host: %v, and %d more are over", err, len(served))
	}
	for range 3 {
		if err := <-served; err == nil || errors.Is(err, refused) { // the start-up has a deadline
			t.Error(err)
		}
	}
	knock("192.0.2.1:4")
	if len(served) != 0 {
		t.Error("the places of those who are gone are not free")
	}
	for _, c := range ends {
		c.Close()
	}
	<-served
}

// fromConn is a pipe end whose peer has an address of its choice.
type fromConn struct {
	net.Conn
	addr net.Addr
}

// RemoteAddr implements net.Conn.
func (c fromConn) RemoteAddr() net.Addr { return c.addr }
