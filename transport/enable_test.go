package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestEnableRDMA carries calls by records, then the same by RDMA, on one connection.
func TestEnableRDMA(t *testing.T) {
	s, addr := served(t, overShared, newEcho(), testConfig())
	sc := dialStream(t, addr, testConfig())
	p := filled(70001)
	call := echoCall(p)
	call.MaxResults = 4 + len(p)
	d := xdr.NewDecoder(mustDo(t, sc, call).Results)
	if !bytes.Equal(d.Opaque(1<<20), p) {
		t.Error("wrong octets came back")
	}
	from := s.Clients()[0].Addr
	c := must(sc.EnableRDMA(testCtx(t)))(t)
	defer c.Close()
	sc.Close() // is not the connection's end
	if c.Conn().LocalAddr().String() != from.String() {
		t.Error("another connection")
	}
	sink := make([]byte, len(p))
	call = echoCall(p)
	call.Sink, call.MaxResults = sink, 64
	checkEcho(t, mustDo(t, c, call), p, sink)
	if st := s.Stats(); st.OctetsRead != uint64(len(p)) || st.OctetsWritten != uint64(len(p)) || st.Connections != 1 || st.Calls != 3 {
		t.Errorf("server: %+v", st)
	}
	if err := try(t, sc, &nullCall); !errors.Is(err, stream.ErrToRDMA) {
		t.Errorf("a call on the record-marked client: %v", err)
	}
	if _, err := sc.EnableRDMA(testCtx(t)); !errors.Is(err, stream.ErrToRDMA) {
		t.Errorf("enabled twice: %v", err)
	}
}

// TestEnableRDMAWaits: the framing shifts when the last reply has come, also that of a
// call that was cancelled; a wait that is given up leaves the client as it was.
func TestEnableRDMAWaits(t *testing.T) {
	h := newEcho()
	_, addr := served(t, overShared, h, testConfig())
	sc := dialStream(t, addr, testConfig())
	ctx, cancel := context.WithCancel(testCtx(t))
	got := make(chan error, 1)
	go func() { got <- tryCtx(ctx, sc, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}) }()
	<-h.enter
	cancel()
	<-got

	short, stop := context.WithTimeout(testCtx(t), 10*time.Millisecond)
	defer stop()
	if _, err := sc.EnableRDMA(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("enabled with a reply to come: %v", err)
	}
	mustDo(t, sc, &nullCall) // continues
	time.AfterFunc(5*time.Millisecond, func() { h.leave <- struct{}{} })
	c := must(sc.EnableRDMA(testCtx(t)))(t)
	defer c.Close()
	mustDo(t, c, &nullCall)
}

// TestEnableRDMAClosed: closing ends the wait.
func TestEnableRDMAClosed(t *testing.T) {
	h := newEcho()
	_, addr := served(t, overShared, h, testConfig())
	sc := dialStream(t, addr, testConfig())
	go try(t, sc, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	<-h.enter
	got := make(chan error, 1)
	go func() {
		_, err := sc.EnableRDMA(testCtx(t))
		got <- err
	}()
	time.Sleep(5 * time.Millisecond)
	sc.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("EnableRDMA on a closed client: %v", err)
	}
	close(h.leave)
}

// TestEnableRDMASplit: the MPA Request in the same segment as the last call, and octet
// by octet.
func TestEnableRDMASplit(t *testing.T) {
	for _, step := range []int{1, 3, 1000} {
		_, addr := served(t, overShared, newEcho(), testConfig())
		conn := must(net.Dial("tcp", addr))(t)
		defer conn.Close()
		req := append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0) // revision 1, CRC
		all := append(rawCall(5, procNull), req...)
		for len(all) > 0 {
			n := min(step, len(all))
			must(conn.Write(all[:n]))(t)
			all = all[n:]
		}
		if xid := readXID(t, conn); xid != 5 {
			t.Errorf("XID %d", xid)
		}
		key := make([]byte, 16)
		if _, err := conn.Read(key); err != nil || string(key) != "MPA ID Rep Frame" {
			t.Errorf("%q, %v", key, err)
		}
	}
}
