package rdmap

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestOlderPeer: if the only answer to a Request is the end of the stream, the error says that revision 1
// may work (RFC 6581 Section 10), and it works.
func TestOlderPeer(t *testing.T) {
	for _, tt := range []struct {
		name string
		rev  int
		end  func(x *Conn, a, b *rdmaptest.Conn, cancel func())
		want bool
	}{
		{"closed", 2, func(_ *Conn, _, b *rdmaptest.Conn, _ func()) { b.Close() }, true},
		{"half-closed", 0, func(_ *Conn, _, b *rdmaptest.Conn, _ func()) { b.CloseWrite() }, true},
		{"reset", 0, func(_ *Conn, _, b *rdmaptest.Conn, _ func()) { b.Reset() }, true},
		{"closed inside a Reply", 0, func(_ *Conn, _, b *rdmaptest.Conn, _ func()) { b.Write([]byte("M")); b.Close() }, false},
		{"closed on revision 1", 1, func(_ *Conn, _, b *rdmaptest.Conn, _ func()) { b.Close() }, false},
		{"context over", 0, func(_ *Conn, _, _ *rdmaptest.Conn, cancel func()) { cancel() }, false},
		{"aborted here", 0, func(x *Conn, _, _ *rdmaptest.Conn, _ func()) { x.Abort(nil) }, false},
		{"closed here", 0, func(_ *Conn, a, _ *rdmaptest.Conn, _ func()) { a.Close() }, false},
	} {
		a, b := rdmaptest.Pipe()
		x := Client(a, &Config{Revision: tt.rev})
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
	y := Server(b, &Config{Revision: 1})
	go y.Handshake(t.Context())
	if err := Client(a, nil).Handshake(t.Context()); !errors.Is(err, verbs.ErrOlderPeer) {
		t.Errorf("a responder of revision 1: %v", err)
	}
	<-y.Done()
	a, b = rdmaptest.Pipe()
	connect(t, a, b, &Config{Revision: 1}, &Config{Revision: 1, Accept: func(r *mpa.Request) ([]byte, error) {
		if r.Rev != 1 || r.Enhanced {
			t.Errorf("%+v", r)
		}
		return nil, nil
	}})
}
