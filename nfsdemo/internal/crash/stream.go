package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// stream is a Caller over NFS/TCP that sends each call with the XID that it is given, so also
// after a restart of the client.
type stream struct {
	addr   Addr
	worker uint16
	cred   xdr.Auth

	conn net.Conn // nil: none
	r    *xdr.RecordReader
	made int
	peer string // the life of the server
}

// answerTime is how long to wait for an answer before sending the call again.
const answerTime = 20 * time.Second

// NewStream returns a caller for a worker, of a server that also listens for TCP.
func NewStream(addr Addr, worker uint16) Caller {
	return &stream{addr: addr, worker: worker, cred: cred(worker)}
}

func (s *stream) dials() int   { return s.made }
func (s *stream) names() bool  { return true }
func (s *stream) life() string { return s.peer }

// Close implements Caller.
func (s *stream) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// do implements Caller.
func (s *stream) do(ctx context.Context, xid, prog uint32, m *message) ([]byte, error) {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: prog, Vers: nfs3.Version, Proc: uint32(m.proc), Cred: s.cred}
	call := append(xdr.AppendCall(nil, &h), m.whole()...)
	rec := append(xdr.AppendRecordMark(nil, len(call), true), call...)
	for {
		raw, err := s.try(ctx, xid, rec)
		if err == nil {
			return raw, nil
		}
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return nil, refused
		}
		_ = s.Close() // the next call makes another connection
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// refusedError is a reply without results of the procedure.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "the call is refused: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// try sends the record on the current connection and waits for the reply.
func (s *stream) try(ctx context.Context, xid uint32, rec []byte) ([]byte, error) {
	if s.conn == nil {
		conn, life, err := s.addr.dial(ctx, "TCP")
		if err != nil {
			return nil, err
		}
		s.conn, s.r = conn, xdr.NewRecordReader(conn, 1<<20)
		s.made++
		s.peer = life
	}
	if err := s.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(rec); err != nil {
		return nil, err
	}
	for {
		b, err := s.r.Next(nil)
		if err != nil {
			return nil, err
		}
		var h xdr.ReplyHeader
		d := xdr.NewDecoder(b)
		if err := h.Parse(&d); err != nil {
			return nil, err
		}
		if h.XID != xid {
			continue // the reply to a call that was sent twice
		}
		if err := h.Err(); err != nil {
			return nil, &refusedError{fmt.Errorf("XID %d: %w", xid, err)}
		}
		return d.Rest(), nil
	}
}
