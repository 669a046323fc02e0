package rdmap_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestErrorTypes: the four kinds are told apart, and net.ErrClosed finds the dead
// connection.
func TestErrorTypes(t *testing.T) {
	cut := &verbs.ConnError{Op: "read", Err: os.ErrDeadlineExceeded}
	if !errors.Is(cut, net.ErrClosed) || !errors.Is(cut, os.ErrDeadlineExceeded) || !cut.Timeout() {
		t.Error(cut)
	}
	if (&verbs.ConnError{Op: "read", Err: io.EOF}).Timeout() {
		t.Error("io.EOF counts as a timeout")
	}
	local := &verbs.LocalError{Code: verbs.TermCode{}, Err: rdmaptest.ErrTest}
	if !errors.Is(local, rdmaptest.ErrTest) || !errors.Is(verbs.ErrClosed, net.ErrClosed) {
		t.Error(local)
	}
	for _, err := range []error{
		cut, local, &verbs.ProtocolError{Section: "RFC 5040 Section 4.1", Msg: "invalid RDMAP version", Err: rdmaptest.ErrTest}, &verbs.TerminateError{}, &verbs.RejectError{},
	} {
		if err.Error() == "" || bytes.Count([]byte(err.Error()), []byte("rdmap: ")) != 1 {
			t.Errorf("%q", err)
		}
	}
}

// TestPrivateDataLimits: private data of every length that a frame has room for, on
// both revisions; one octet more is refused before anything is sent.
func TestPrivateDataLimits(t *testing.T) {
	for _, rev := range []int{1, 2} {
		most := 512
		if rev == 2 {
			most -= mpa.EnhancedLen
		}
		for n := 0; n <= most+1; n += 1 + n%9*4 {
			privateData(t, rev, n, n <= most)
		}
		for n := most - 1; n <= most+1; n++ {
			privateData(t, rev, n, n <= most)
		}
	}
}

func privateData(t *testing.T, rev, n int, fits bool) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	data := rdmaptest.Pattern(n)
	x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Revision: rev, PrivateData: data}})
	y := rdmap.Server(b, &rdmap.Config{Startup: rdmap.Startup{Accept: func(r *mpa.Request) ([]byte, error) {
		if !bytes.Equal(r.PrivateData, data) {
			t.Errorf("revision %d, %d octets: Accept sees %x", rev, n, r.PrivateData)
		}
		return data, nil
	}}})
	errs := make(chan error, 1)
	go func() { errs <- y.Handshake(t.Context()) }()
	err := x.Handshake(t.Context())
	other := <-errs
	if fits != (err == nil) || fits != (other == nil) {
		t.Errorf("revision %d, %d octets: %v, %v", rev, n, err, other)
	}
	if fits && (!bytes.Equal(x.PeerPrivateData(), data) || !bytes.Equal(y.PeerPrivateData(), data)) {
		t.Errorf("revision %d, %d octets: the private data differ", rev, n)
	}
	x.Abort(nil)
	y.Abort(nil)
	<-x.Done()
	<-y.Done()
}

// TestCapabilityBlock: the block of our extensions is at the end of the private data, after the data of
// RFC 8797, which Linux expects at offset 0.
func TestCapabilityBlock(t *testing.T) {
	a, b := rdmaptest.Pipe()
	r := &rdmaptest.Record{Conn: a}
	_, y := rdmaptest.Connect(t, r, b, &rdmap.Config{Startup: rdmap.Startup{PrivateData: []byte("ulp"), Extensions: verbs.ExtCommit}}, nil)
	if y.PeerPrivateData() == nil || string(y.PeerPrivateData()) != "ulp" || !y.ConnectionState().StagPeer {
		t.Errorf("%q, %+v", y.PeerPrivateData(), y.ConnectionState())
	}
	const block = "73746167" + "010c" + "fd00"
	for _, got := range []struct {
		octets []byte
		want   string
	}{
		{r.Out(), hex.EncodeToString([]byte("ulp")) + block + "00000009"},
		{r.In(), block + "00000001"},
	} {
		if !bytes.HasSuffix(got.octets, rdmaptest.Unhex(t, got.want)) {
			t.Errorf("frame %x, want ... %s", got.octets, got.want)
		}
	}
	for block, mulpdu := range map[string]int{block[:12] + "0001" + "00000000": 128, block[:12] + "ffff" + "00000000": rdmap.StagMULPDU} {
		a, b := rdmaptest.Pipe()
		y := rdmap.Server(b, nil)
		go rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1, PrivateData: rdmaptest.Unhex(t, block)}) //nolint:errcheck // the other side tells
		noErr(t, y.Handshake(t.Context()))
		if s := y.ConnectionState(); !s.StagPeer || s.MULPDU != mulpdu {
			t.Errorf("%s: %+v", block, s)
		}
		y.Abort(nil)
		<-y.Done()
	}
}

// TestOlderPeer: if the only answer to a Request is the end of the stream, the error says that revision 1
// may work (RFC 6581 Section 10), and it works.
func TestOlderPeer(t *testing.T) {
	for _, tt := range []struct {
		name string
		rev  int
		end  func(x *rdmap.Conn, a, b *rdmaptest.Conn, cancel func())
		want bool
	}{
		{"closed", 2, func(_ *rdmap.Conn, _, b *rdmaptest.Conn, _ func()) { b.Close() }, true},
		{"half-closed", 0, func(_ *rdmap.Conn, _, b *rdmaptest.Conn, _ func()) { b.CloseWrite() }, true},
		{"reset", 0, func(_ *rdmap.Conn, _, b *rdmaptest.Conn, _ func()) { b.Reset() }, true},
		{"closed inside a Reply", 0, func(_ *rdmap.Conn, _, b *rdmaptest.Conn, _ func()) { b.Write([]byte("M")); b.Close() }, false},
		{"closed on revision 1", 1, func(_ *rdmap.Conn, _, b *rdmaptest.Conn, _ func()) { b.Close() }, false},
		{"context over", 0, func(_ *rdmap.Conn, _, _ *rdmaptest.Conn, cancel func()) { cancel() }, false},
		{"aborted here", 0, func(x *rdmap.Conn, _, _ *rdmaptest.Conn, _ func()) { x.Abort(nil) }, false},
		{"closed here", 0, func(_ *rdmap.Conn, a, _ *rdmaptest.Conn, _ func()) { a.Close() }, false},
	} {
		a, b := rdmaptest.Pipe()
		x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Revision: tt.rev}})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { errs <- x.Handshake(ctx) }()
		if _, err := b.Read(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		tt.end(x, a, b, cancel)
		if err := <-errs; err == nil || errors.Is(err, verbs.ErrOlderPeer) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
		cancel()
		b.Close()
		<-x.Done()
	}
	a, b := rdmaptest.Pipe()
	y := rdmap.Server(b, &rdmap.Config{Startup: rdmap.Startup{Revision: 1}})
	go y.Handshake(t.Context())
	if err := rdmap.Client(a, nil).Handshake(t.Context()); !errors.Is(err, verbs.ErrOlderPeer) {
		t.Errorf("a responder of revision 1: %v", err)
	}
	<-y.Done()
	a, b = rdmaptest.Pipe()
	rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Revision: 1}}, &rdmap.Config{Startup: rdmap.Startup{Revision: 1, Accept: func(r *mpa.Request) ([]byte, error) {
		if r.Rev != 1 || r.Enhanced {
			t.Errorf("%+v", r)
		}
		return nil, nil
	}}})
}
