package transport

import (
	"errors"
	"io"
	"net"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/rpc"
)

// opErr wraps err; nil stays nil and an OpError stays as it is.
func opErr(op rpc.Op, addr string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*rpc.OpError](err); ok {
		return err
	}
	return &rpc.OpError{Op: op, Addr: addr, Err: err}
}

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
