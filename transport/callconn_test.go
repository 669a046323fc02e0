package transport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// dialConn connects a record-marked client's end to an RDMA server.
func dialConn(t testing.TB, addr string, cfg *transport.Config) *transport.CallConn {
	t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	c := must(transport.DialConn(testCtx(t), "tcp", addr, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// streamOver is a TCP client that does not know what is below it.
func streamOver(t testing.TB, conn net.Conn) *transport.StreamClient {
	t.Helper()
	c := must(transport.NewStreamClient(context.Background(), conn, testConfig()))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestCallConnTooBig: what cannot be carried is answered, not swallowed.
func TestCallConnTooBig(t *testing.T) {
	cfg := testConfig()
	_, addr := startServer(t, newEcho(), cfg)
	small := *cfg
	small.MaxPayload = 8192
	c := streamOver(t, dialConn(t, addr, &small))
	wantStatus(t, c, wordCall(procList, 10000), xdr.SystemErr)
	mustDo(t, c, &nullCall)
}

// rawCall is the record of a call of the test program.
func rawCall(xid, proc uint32) []byte {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: testProg, Vers: testVers, Proc: proc}
	return xdr.AppendCall(xdr.AppendRecordMark(nil, h.Size(), true), &h)
}

// readXID reads the record of a reply.
func readXID(t *testing.T, c net.Conn) uint32 {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var mark [4]byte
	must(io.ReadFull(c, mark[:]))(t)
	msg := make([]byte, binary.BigEndian.Uint32(mark[:])&xdr.MaxFragment)
	must(io.ReadFull(c, msg))(t)
	xid, _, _ := xdr.PeekXID(msg)
	return xid
}

// TestCallConnRetransmission: the same XID twice is executed once, and its XID is
// the one that comes back.
func TestCallConnRetransmission(t *testing.T) {
	h := newEcho()
	s, addr := startServer(t, h, nil)
	c := dialConn(t, addr, nil)
	for range 2 {
		must(c.Write(rawCall(77, procBlock)))(t)
	}
	<-h.enter
	h.leave <- struct{}{}
	if xid := readXID(t, c); xid != 77 {
		t.Errorf("XID %d", xid)
	}
	if st := s.Stats(); st.Calls != 2 { // with the one that asks for the grant
		t.Errorf("%d calls", st.Calls)
	}
	if _, err := c.Write(rawCall(77, procNull)); err != nil { // it is free again
		t.Fatal(err)
	}
	if xid := readXID(t, c); xid != 77 {
		t.Errorf("XID %d", xid)
	}
}

// TestCallConnDeadlines: reads and writes that have to wait end at their deadline.
func TestCallConnDeadlines(t *testing.T) {
	h := newEcho()
	cfg := testConfig()
	cfg.Credits = 1
	_, addr := startServer(t, h, cfg)
	c := dialConn(t, addr, cfg)
	must(c.Write(rawCall(1, procBlock)))(t)
	<-h.enter
	c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	if _, err := c.Write(rawCall(2, procNull)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: %v", err)
	}
	c.SetDeadline(time.Time{})
	close(h.leave)
	if xid := readXID(t, c); xid != 1 {
		t.Errorf("XID %d", xid)
	}
}

// TestCallConnGarbage: octets that are not a call are refused where they are written.
func TestCallConnGarbage(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	c := dialConn(t, addr, nil)
	if _, err := c.Write([]byte{0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1}); !errors.Is(err, rpc.ErrNotACall) {
		t.Errorf("a reply written as a call: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read on a connection that has failed: %v", err)
	}
}

// TestCallConnEnds: a server that goes ends Read, with calls under way or without.
func TestCallConnEnds(t *testing.T) {
	for _, under := range []bool{false, true} {
		h := newEcho()
		s, addr := startServer(t, h, nil)
		c := dialConn(t, addr, nil)
		if under {
			must(c.Write(rawCall(1, procBlock)))(t)
			<-h.enter
		}
		s.Close()
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("Read waits although the server is gone")
		}
		if _, err := c.Write(rawCall(2, procNull)); err == nil {
			t.Error("Write after the server's end")
		}
	}
}

// TestCallConnHalf: who goes on writing to a closed connection, wherever in a call it was, gets an error.
func TestCallConnHalf(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	for _, n := range []int{1, 4, 5, 11, 20} {
		c, call := dialConn(t, addr, nil), rawCall(1, procNull)
		must(c.Write(call[:n]))(t)
		c.Close()
		if n, err := c.Write(call[n:]); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%d, %v", n, err)
		}
	}
}
