package perftest

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/internal/accept"
)

// incoming holds what a listener accepts, so that a test can wait for its second connection and for the end
// of its first.
type incoming struct {
	l     net.Listener
	conns chan net.Conn // closed when the listener has failed, with err
	err   error
}

// accepting begins to accept; l is the result's.
func accepting(l net.Listener) *incoming {
	in := &incoming{l: l, conns: make(chan net.Conn)}
	go in.accept()
	return in
}

func (in *incoming) accept() {
	in.err = accept.Serve(context.Background(), in.l, func(nc net.Conn) { in.conns <- nc }) // close closes l
	close(in.conns)
}

// close closes the listener, and the accepted connections that nobody has taken.
func (in *incoming) close() {
	_ = in.l.Close()
	for nc := range in.conns {
		_ = nc.Close()
	}
}
