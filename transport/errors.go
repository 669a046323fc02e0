package transport

import (
	"errors"
	"io"
	"net"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// endOfStream reports whether err is the orderly end of a connection, by either side.
func endOfStream(err error) bool {
	if e, ok := errors.AsType[*verbs.ConnError](err); ok {
		err = e.Err // because every ConnError is also a net.ErrClosed
	}
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// ignoreEnd drops the errors that only say that a connection is over.
func ignoreEnd(err error) error {
	if err == nil || endOfStream(err) {
		return nil
	}
	return err
}

// addrOf returns the peer's address for errors and logs.
func addrOf(c interface{ RemoteAddr() net.Addr }) string {
	if a := c.RemoteAddr(); a != nil {
		return a.String()
	}
	return ""
}
