package capture

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/stag-rdma/stag/internal/accept"
)

// Relay accepts connections from l, and forwards each to addr and records it, until l fails. Then it
// waits for the connections to end, and returns nil if l was closed, otherwise the error of l. Both
// ends keep plain connections of their network, which a tap would hide from them.
//
// Octets are recorded before they are forwarded. If the network supports it, the end of one direction
// is forwarded as such. If addr cannot be dialled, the accepted connection is closed.
func (w *Writer) Relay(l net.Listener, network, addr string) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	err := accept.Serve(context.Background(), l, func(c net.Conn) {
		wg.Go(func() {
			defer c.Close()
			s, err := net.Dial(network, addr)
			if err != nil {
				return
			}
			defer s.Close()
			w.relay(c, s)
		})
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// relay forwards both directions of one connection.
func (w *Writer) relay(client, server net.Conn) {
	rec := w.conn(client.RemoteAddr(), server.RemoteAddr())
	var wg sync.WaitGroup
	wg.Go(func() { rec.forward(ToServer, server, client) })
	wg.Go(func() { rec.forward(ToClient, client, server) })
	wg.Wait()
}

// forward copies one direction until it ends.
func (c *Conn) forward(dir Dir, dst io.Writer, src io.Reader) {
	_, _ = io.Copy(recorded{c, dir, dst}, onlyReader{src}) // either end may go away at any time
	c.CloseWrite(dir)
	if h, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	} else if h, ok := dst.(io.Closer); ok {
		_ = h.Close()
	}
}

// recorded is a writer that records the octets first.
type recorded struct {
	c   *Conn
	dir Dir
	w   io.Writer
}

func (r recorded) Write(p []byte) (int, error) {
	r.c.Write(r.dir, p)
	return r.w.Write(p)
}

// onlyReader hides the other methods of a connection, so that io.Copy cannot bypass the recording.
type onlyReader struct{ io.Reader }
