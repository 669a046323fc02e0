package rdmap_test

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestIdleConnectionIsWatched: what arrives while nobody waits is delivered, and the end of the
// connection is noticed: at once if it has been idle for long, within two ticks after a call.
func TestIdleConnectionIsWatched(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		t.Parallel()
		h := rdmaptest.NewCollector()
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Handler: h}, nil)
		ctx := t.Context()
		noErr(t, x.Send(ctx, []byte("first")))
		if _, err := y.Recv(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			noErr(t, y.Send(ctx, []byte{byte(i)}))
			Within(t, "the message", h.Got)
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
		}
		go y.Close()
		Within(t, "the end", h.Over)
		if !errors.Is(h.Closed, io.EOF) {
			t.Fatalf("ended with %v", h.Closed)
		}
	})
}

// TestPeerTerminatesLinger: a side that received a Terminate half-closes and reads until the peer has
// closed: to close with unread input would send a reset, which can destroy what it has sent.
func TestPeerTerminatesLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		x, p := RawResponder(t, a, b, nil)
		go x.Serve()
		noErr(t, p.Send(rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.TermLocal))))
		if got := Everything(t, b); len(got) > 0 {
			t.Errorf("answered with %x", got)
		}
		synctest.Wait()
		select {
		case <-x.Done():
			t.Error("closed before the peer has")
		default:
		}
		b.Close()
		<-x.Done()
	})
}

// TestResponderWaitsForFirstFPDU: "MUST receive and validate one FPDU before sending
// any", RFC 5044 Section 7.1.2. A first one whose CRC is wrong is not answered; one that is valid, but
// breaks a rule of DDP or RDMAP, gets its Terminate like any other.
//
// spec: rdmap 7.5 first
func TestResponderWaitsForFirstFPDU(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(u []byte)
		code  string // of the Terminate: "-" for none, since nothing is wrong
		crc   bool   // wrong
	}{
		{name: "good", code: "-"},
		{name: "CRC", crc: true},
		{name: "DDP version", spoil: func(u []byte) { u[0] = 0x40 }, code: "1206"},
		{name: "QN", spoil: func(u []byte) { u[9] = 4 }, code: "1201"},
		{name: "MSN", spoil: func(u []byte) { u[13] = 9 }, code: "1203"},
		{name: "RDMAP version", spoil: func(u []byte) { u[1] = 0x83 }, code: "0205"},
		{name: "opcode", spoil: func(u []byte) { u[1] = 0x4b }, code: "0206"},
	} {
		a, b := rdmaptest.Pipe()
		y := rdmap.Server(b, nil)
		go y.Handshake(t.Context())
		p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
		noErr(t, err)
		for y.Post([]verbs.WR{{Op: verbs.OpSend}}) == verbs.ErrNoHandshake {
			time.Sleep(time.Millisecond)
		}
		a.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if u, err := p.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("sent %x before the first FPDU, %v", u, err)
		}
		a.SetReadDeadline(time.Now().Add(10 * time.Second))
		u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.Send))
		if tt.spoil != nil {
			tt.spoil(u)
		}
		if f := p.Frame(u); tt.crc {
			f[len(f)-1] ^= 1
			a.Write(f)
		} else {
			a.Write(f)
		}
		got, err := p.Next()
		if tt.crc {
			if err != io.EOF {
				t.Fatalf("%s: got %x, %v", tt.name, got, err)
			}
		} else if err != nil || got[1] != 0x43 { // what was posted
			t.Fatalf("%s: got %x, %v", tt.name, got, err)
		} else if tt.code != "-" {
			if got, err = p.Next(); err != nil || got[1] != 0x47 || hex.EncodeToString(got[18:20]) != tt.code {
				t.Fatalf("%s: got %x, %v, want Terminate %s", tt.name, got, err, tt.code)
			}
		}
		a.Close()
		y.Abort(nil)
		<-y.Done()
	}
}

// TestTerminateTooEarly: a side that gives up before it may send a Terminate ends without one: before
// the end of the startup, or as a responder before the first FPDU (RFC 5044 Section 7.1.2).
func TestTerminateTooEarly(t *testing.T) {
	for name, start := range map[string]func(*testing.T, net.Conn, net.Conn) *rdmap.Conn{
		"no startup": func(_ *testing.T, a, _ net.Conn) *rdmap.Conn { return rdmap.Client(a, nil) },
		"no FPDU": func(t *testing.T, a, b net.Conn) *rdmap.Conn {
			_, y := rawInitiator(t, b, a, nil)
			return y
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				x := start(t, a, b)
				x.Terminate(verbs.TermCode{}, rdmaptest.ErrTest)
				if got := Everything(t, b); len(got) > 0 {
					t.Errorf("sent %x", got)
				}
				b.Close()
				<-x.Done()
			})
		})
	}
}
