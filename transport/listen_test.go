package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// accepted returns the listener's end of a fresh connection.
func accepted(t testing.TB, l net.Listener) net.Conn {
	t.Helper()
	c := must(l.Accept())(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRecordConn(t *testing.T) {
	nl := listenAny(t, testConfig())
	defer nl.Close()
	c := dial(t, nl.Addr().String(), nil)
	rec := accepted(t, nl)
	if rec.RemoteAddr().String() != c.Conn().LocalAddr().String() {
		t.Errorf("remote address %v, want %v", rec.RemoteAddr(), c.Conn().LocalAddr())
	}

	rec.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := rec.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after its deadline: %v", err)
	}
	rec.SetDeadline(time.Time{})

	got := make(chan error, 1)
	go func() { got <- try(t, c, &nullCall) }()
	var msg [44]byte // mark and a call without arguments
	for i := range msg {
		must(io.ReadFull(rec, msg[i:i+1]))(t)
	}
	if msg[0] != 0x80 || msg[3] != 40 {
		t.Fatalf("record mark %x", msg[:4])
	}
	// The reply in two fragments, octet by octet, behind a reply to nobody.
	reply := []byte{0x80, 0, 0, 8, 9, 9, 9, 9, 0, 0, 0, 1}
	reply = append(reply, 0, 0, 0, 10)
	reply = append(reply, msg[4:8]...)
	reply = append(reply, 0, 0, 0, 1, 0, 0)
	reply = append(reply, 0x80, 0, 0, 14)
	reply = append(reply, make([]byte, 14)...)
	for i := range reply {
		if n, err := rec.Write(reply[i : i+1]); n != 1 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if err := <-got; err != nil {
		t.Error(err)
	}

	c.Close()
	if _, err := rec.Read(msg[:]); err != io.EOF {
		t.Errorf("Read after the peer's end: %v", err)
	}
	if _, err := rec.Write(msg[:]); err == nil {
		t.Error("Write after the peer's end succeeded")
	}
}

func TestListenerClose(t *testing.T) {
	nl := listenAny(t, testConfig())
	c := dial(t, nl.Addr().String(), nil)
	rec := accepted(t, nl)
	waiting := make(chan error, 1)
	go func() {
		_, err := nl.Accept()
		waiting <- err
	}()
	nl.Close()
	nl.Close()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if _, err := dialAddr(testCtx(t), t, nl.Addr().String(), nil); err == nil {
		t.Error("Dial to a closed listener succeeded")
	} else {
		t.Log(err)
	}
	// The accepted connection lives.
	go try(t, c, &nullCall)
	if _, err := rec.Read(make([]byte, 4)); err != nil {
		t.Errorf("accepted connection: %v", err)
	}
}
