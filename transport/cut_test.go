package transport_test

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
)

// errCut is what a writer sees when its wire is cut.
var errCut = errors.New("wire cut by the test")

// cutConn breaks the connection when this end has written after octets; it records
// what was written.
type cutConn struct {
	*rdmaptest.Conn
	mu    sync.Mutex
	after int // -1: never
	sent  []byte
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after >= 0 && len(c.sent)+len(p) > c.after {
		n := c.after - len(c.sent)
		c.Conn.Write(p[:n])
		c.sent = append(c.sent, p[:n]...)
		c.Conn.Reset()
		return n, errCut
	}
	c.sent = append(c.sent, p...)
	return c.Conn.Write(p)
}

// frames returns the offsets at which FPDUs of a recorded stream begin and end: they
// follow a start-up frame (RFC 5044 Section 7.1) and have a length word, padding and
// a CRC (RFC 5044 Section 4).
func frames(stream []byte) (at []int) {
	if len(stream) < 20 {
		return nil
	}
	off := 20 + int(binary.BigEndian.Uint16(stream[18:]))
	for at = append(at, off); off+2 <= len(stream); at = append(at, off) {
		n := 2 + int(binary.BigEndian.Uint16(stream[off:]))
		off += (n+3)&^3 + 4
	}
	return at
}

// conversation makes one call of each form. It returns the first error.
func conversation(t *testing.T, c rpc.Caller) error {
	echo := echoCall(filled(5001))
	echo.Sink, echo.MaxResults = make([]byte, 5001), 64
	list := wordCall(procList, 3000)
	list.MaxResults = 4 * 3000
	long := &rpc.Call{Prog: testProg, Vers: testVers, Proc: procNull, Args: filled(6000)}
	for _, call := range []*rpc.Call{&nullCall, echo, list, long} {
		if err := try(t, c, call); err != nil {
			return err
		}
	}
	return nil
}

// talk is a conversation with a server of h.
type talk struct {
	h      func() rpc.Handler
	config func() *transport.Config
	have   func(*testing.T, rpc.Caller) error
}

// cut has it over a pipe whose ends are cut after so many octets, and checks that nothing is left of it.
func (x *talk) cut(t *testing.T, client, server int) (cc, sc *cutConn, err error) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	cc, sc = &cutConn{Conn: a, after: client}, &cutConn{Conn: b, after: server}
	before := memory.Shared.Live()
	s := &transport.Server{Handler: x.h(), Config: x.config()}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(sc) }()
	c, err := transport.NewClient(testCtx(t), cc, x.config())
	var engines []*rdmap.Conn
	if err == nil {
		engines = append(enginesOf(s), c.Conn())
		err = x.have(t, c)
		c.Close()
	}
	<-served
	for _, e := range engines {
		<-e.Done()
		if n := e.Table().Live(); n != 0 {
			t.Errorf("cut at %d, %d: %d live STags", client, server, n)
		}
	}
	waitFor(t, "all buffers are back", func() bool { return memory.Shared.Live() == before })
	if st := s.Stats(); st.InFlight != 0 || st.Connections != 0 || st.Exposed != 0 || s.OctetsExposed() != 0 {
		t.Errorf("cut at %d, %d: %+v", client, server, st)
	}
	if held := s.Stats().Held; held != 0 {
		t.Errorf("cut at %d, %d: %d octets of the budget held", client, server, held)
	}
	return cc, sc, err
}

// enginesOf returns the engines of the RDMA connections alive.
func enginesOf(s *transport.Server) (list []*rdmap.Conn) {
	for _, rc := range s.Responders() {
		list = append(list, rc.Conn)
	}
	return list
}

// TestCut cuts the connection at and around every frame boundary, in both directions, of conversations with calls of each
// form, with a handler that pulls, and with replies that are exposed, being read, or wait for their RDMA_DONE: calls fail,
// nothing stays registered, held or running.
func TestCut(t *testing.T) {
	echo := func() rpc.Handler { return newEcho() }
	for name, x := range map[string]talk{
		"calls":   {echo, testConfig, conversation},
		"exposed": {echo, config5666, exposedTalk},
		"lazy": {func() rpc.Handler { return newTaker() }, testConfig, func(t *testing.T, c rpc.Caller) (err error) {
			for _, how := range []uint32{takePull, takeNot, takeInto} {
				err = errors.Join(err, try(t, c, takeCall(filled(5001), how)))
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) { cutEverywhere(t, &x) })
	}
}

// cutEverywhere runs a conversation as often as it has frames and offsets.
func cutEverywhere(t *testing.T, x *talk) {
	settle(t)
	cc, sc, err := x.cut(t, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	cuts := 0
	for dir, stream := range [][]byte{cc.sent, sc.sent} {
		for _, at := range append(frames(stream), 0, 10) {
			for _, off := range []int{-3, 0, 1, 20, 500} {
				if off += at; off < 0 || off >= len(stream) {
					continue
				}
				cuts++
				client, server := off, -1
				if dir == 1 {
					client, server = -1, off
				}
				// Frames may come in another grouping than when they were recorded, so
				// an error is not certain near the end; leaving nothing behind is.
				if _, _, err := x.cut(t, client, server); err != nil && !isOpError(err) {
					t.Errorf("cut at %d, %d: %v", client, server, err)
				}
			}
		}
	}
	t.Logf("%d cuts", cuts)
	if err := rdmaptest.Leaks(); err != nil {
		t.Error(err)
	}
}

// settle waits until what earlier tests have ended is over: counts of the process can
// be compared from then on.
func settle(t *testing.T) {
	t.Helper()
	if err := rdmaptest.Leaks(); err != nil {
		t.Fatal("of earlier tests:", err)
	}
}

func isOpError(err error) bool {
	_, ok := errors.AsType[*rpc.OpError](err)
	return ok && errors.Is(err, net.ErrClosed) || errors.Is(err, errCut)
}
