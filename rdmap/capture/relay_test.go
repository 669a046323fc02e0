package capture_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/capture"
)

// echoServer sends back what it receives on each connection, until the client closes.
func echoServer(t *testing.T) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestRelay(t *testing.T) {
	var file bytes.Buffer
	w := must(capture.NewWriter(&file))(t)
	server := echoServer(t)
	front := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- w.Relay(front, "tcp", server.Addr().String()) }()

	c := must(net.Dial("tcp", front.Addr().String()))(t)
	said := bytes.Repeat([]byte("ping "), 20000)
	go func() {
		_, _ = c.Write(said)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	heard, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(heard, said) {
		t.Fatalf("%d octets, %v", len(heard), err)
	}
	port := c.LocalAddr().(*net.TCPAddr).Port
	noErr(t, c.Close())
	noErr(t, front.Close())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	noErr(t, w.Close())
	all := packets(t, file.Bytes())
	for _, p := range []int{port, server.Addr().(*net.TCPAddr).Port} {
		if got := stream(t, all, uint16(p)); !bytes.Equal(got, said) {
			t.Errorf("from port %d: %d octets, want %d", p, len(got), len(said))
		}
	}
}

func TestRelayNobodyThere(t *testing.T) {
	w := must(capture.NewWriter(io.Discard))(t)
	gone := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = gone.Close()
	front := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- w.Relay(front, "tcp", gone.Addr().String()) }()
	c := must(net.Dial("tcp", front.Addr().String()))(t)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d octets, %v", n, err)
	}
	_ = front.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
