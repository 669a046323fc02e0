package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// listenRaw serves connections with f.
func listenRaw(t *testing.T, f func(c net.Conn)) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// TestDialErrors: an error is one line that says what to do.
func TestDialErrors(t *testing.T) {
	release := make(chan struct{})
	silent := listenRaw(t, func(net.Conn) { <-release })
	defer close(release)
	gone := listenRaw(t, func(c net.Conn) { c.Read(make([]byte, 1)) })
	http := listenRaw(t, func(c net.Conn) {
		c.Read(make([]byte, 1000))
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(time.Second))
		io.Copy(io.Discard, c)
	})
	no := listenRaw(t, func(c net.Conn) {
		p := rdmap.Server(c, &rdmap.Config{Startup: rdmap.Startup{Accept: func(*mpa.Request) ([]byte, error) { return nil, errors.New("no") }}})
		p.Handshake(context.Background())
		p.Close()
	})
	for _, tt := range []struct {
		name, addr, want string
		is               error
	}{
		{"nobody listens", "127.0.0.1:1", "is the server running", nil},
		{"silent", silent, "does not answer the MPA start-up", os.ErrDeadlineExceeded},
		{"hangs up", gone, "hung up during the MPA start-up", net.ErrClosed},
		{"web server", http, "not an iWARP peer", mpa.ErrKey},
		{"rejects", no, "rejected", nil},
		{"no port", "127.0.0.1", "write host:port", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &transport.Config{}
			if tt.name == "silent" { // for the others no time is too long on a busy machine
				cfg.Startup.Timeout = 50 * time.Millisecond
			}
			_, err := transport.Dial(testCtx(t), "tcp", tt.addr, cfg)
			e, ok := errors.AsType[*rpc.OpError](err)
			if !ok || e.Op != rpc.OpDial || e.Addr != tt.addr {
				t.Fatalf("error %#v", err)
			}
			if s := err.Error(); !strings.Contains(s, tt.want) || strings.Contains(s, "\n") {
				t.Errorf("message %q, want %q in one line", s, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v is not %v", err, tt.is)
			}
			if e.Timeout() != (tt.name == "silent") {
				t.Errorf("Timeout is %v", e.Timeout())
			}
			t.Log(err)
		})
	}
}

func TestListenError(t *testing.T) {
	l, err := transport.Listen("tcp", "127.0.0.1:0", nil)
	noErr(t, err)
	defer l.Close()
	_, err = transport.Listen("tcp", l.Addr().String(), nil)
	if err == nil || !strings.Contains(err.Error(), "another server has this port") {
		t.Errorf("second Listen: %v", err)
	}
	// What contradicts itself; conformance.TestSettings has the ranges.
	for name, c := range map[string]*transport.Config{
		"out of range":              {Credits: -1},
		"private data":              {Startup: transport.Startup{PrivateData: []byte{1}}},
		"credits without a handler": {Backward: transport.Backward{Credits: 1}},
		"handler without credits":   {Backward: transport.Backward{Handler: newEcho()}},
		"both documents":            {Backward: transport.Backward{Credits: 1, Handler: newEcho()}, RFC5666: &transport.RFC5666{}},
	} {
		if c, err := transport.Dial(testCtx(t), "tcp", l.Addr().String(), c); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("Dial, %s: %v %v", name, c, err)
		}
		if c, err := transport.DialStream(testCtx(t), "tcp", l.Addr().String(), c); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("DialStream, %s: %v %v", name, c, err)
		}
		if c.Backward.Handler != nil || c.Backward.Credits > 0 {
			continue // a server needs no handler
		}
		if err := c.Check(); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("Check, %s: %v", name, err)
		}
		if _, err := transport.Listen("tcp", "127.0.0.1:0", c); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("Listen, %s: %v", name, err)
		}
		s := &transport.Server{Handler: newEcho(), Config: c}
		_, conn := net.Pipe()
		if err := s.ServeConn(conn); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("Serve, %s: %v", name, err)
		}
		if err := s.Close(); !errors.Is(err, rpc.ErrConfig) || s.Stats() != (rpc.Stats{}) {
			t.Errorf("Close, %s: %v", name, err)
		}
	}
}

// TestForeignAddress: an address that no interface has. (Some systems let anybody listen on one.)
func TestForeignAddress(t *testing.T) {
	err := &rpc.OpError{Op: rpc.OpListen, Addr: "192.0.2.1:1", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}
	if !strings.Contains(err.Error(), "is this an address of this machine") {
		t.Error(err)
	}
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&rpc.RPCError{XID: 7, Reason: rpc.ReasonTooBig}, "transport: call 0x00000007: too large"},
		{&rpc.RPCError{XID: 7, Reason: 99, Err: io.EOF}, "transport: call 0x00000007: reason(99): EOF"},
		{&rpc.OpError{Op: rpc.OpCall, Err: context.Canceled}, "transport: call: context canceled"},
		{&rpc.OutcomeError{XID: 7, Prog: 9, Vers: 1, Proc: 2, Sent: 3, Repeatable: true, Err: &rpc.OpError{Op: rpc.OpCall, Err: io.EOF}}, "transport: call 0x00000007 of program 0x9, version 1, procedure 2: the server may or may not have run it: EOF (it was sent 3 times; look what the server has before you make the call again)"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
	if rpc.AsOpError(rpc.OpCall, "", nil) != nil {
		t.Error("nil became an error")
	}
	inner := rpc.AsOpError(rpc.OpDial, "x", io.EOF)
	if rpc.AsOpError(rpc.OpCall, "", inner) != inner {
		t.Error("an OpError was wrapped again")
	}
}

// TestDialNetwork: a network without streams is refused at once, and not dialed.
func TestDialNetwork(t *testing.T) {
	for _, network := range []string{"udp", "udp4", "unixgram", "unixpacket", "ip4:tcp", "", "tcp5"} {
		if c, err := transport.Dial(testCtx(t), network, "127.0.0.1:9", nil); !errors.Is(err, rpc.ErrConfig) || !strings.Contains(err.Error(), "want tcp") {
			t.Errorf("Dial %q: %v %v", network, c, err)
		}
		if c, err := transport.DialStream(testCtx(t), network, "127.0.0.1:9", nil); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("DialStream %q: %v %v", network, c, err)
		}
	}
}
