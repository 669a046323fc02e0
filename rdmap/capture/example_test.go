package capture_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// A server that records all its connections.
func ExampleCreate() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	w, err := capture.Create(filepath.Join(dir, "trace.pcapng"))
	if err != nil {
		fmt.Println(err)
		return
	}
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	l = w.TapListener(l)
	go func() {
		c, _ := net.Dial("tcp", l.Addr().String())
		_, _ = io.WriteString(c, "hello")
		_ = c.Close()
	}()
	c, _ := l.Accept()
	text, _ := io.ReadAll(c)
	_, _ = c.Close(), l.Close()
	fmt.Printf("%s, recorded: %v\n", text, w.Close())
	// Output: hello, recorded: <nil>
}

// Octets that you have already become a connection in a capture.
func ExampleNewWriter() {
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := w.Conn(netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:20049"))
	c.Write(capture.ToServer, []byte("MPA ID Req Frame"))
	c.Write(capture.ToClient, []byte("MPA ID Rep Frame"))
	c.CloseWrite(capture.ToServer)
	c.Close()
	fmt.Println(w.Close(), w.Err(), w.Dropped(), bytes.Contains(file.Bytes(), []byte("MPA ID Rep Frame")))
	// Output: <nil> <nil> 0 true
}

// An engine whose every octet is recorded.
func ExampleWriter_TapClient() {
	var file bytes.Buffer
	w, _ := capture.NewWriter(&file)
	a, b := net.Pipe()
	x, y := rdmap.Client(w.TapClient(a), nil), rdmap.Server(b, nil)
	ctx := context.Background()
	go y.Handshake(ctx)
	fmt.Println(x.Handshake(ctx))
	x.Abort(nil)
	y.Abort(nil)
	<-x.Done()
	fmt.Println(w.Close(), bytes.Contains(file.Bytes(), []byte("MPA ID Req Frame")))
	// Output:
	// <nil>
	// <nil> true
}

// The server's side of such a connection.
func ExampleWriter_TapServer() {
	w, _ := capture.NewWriter(io.Discard)
	a, b := net.Pipe()
	c := w.TapServer(b)
	go a.Write([]byte("question"))
	p := make([]byte, 8)
	_, _ = io.ReadFull(c, p)
	fmt.Printf("%s %v %v\n", p, c.Close(), w.Close())
	// Output: question <nil> <nil>
}

// Every connection of a listener.
func ExampleWriter_TapListener() {
	w, _ := capture.NewWriter(io.Discard)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	tapped := w.TapListener(l)
	fmt.Println(tapped.Addr() == l.Addr(), tapped.Close(), w.Close())
	// Output: true <nil> <nil>
}

// TLS above the tap, with its keys in a file beside the capture.
func ExampleWriter_TapClient_tls() {
	w, _ := capture.NewWriter(io.Discard)
	var keys bytes.Buffer // a file trace.pcapng.keys in a real program
	a, _ := net.Pipe()
	c := tls.Client(w.TapClient(a), &tls.Config{ServerName: "stag.example", KeyLogWriter: &keys})
	fmt.Println(c.ConnectionState().HandshakeComplete, w.Close())
	// Output: false <nil>
}

func ExampleWriter_Relay() {
	w, _ := capture.NewWriter(io.Discard) // a file in a real program
	server, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		c, _ := server.Accept()
		_, _ = io.Copy(c, c) // echo
		_ = c.Close()
	}()
	front, _ := net.Listen("tcp", "127.0.0.1:0")
	done := make(chan error)
	go func() { done <- w.Relay(front, "tcp", server.Addr().String()) }()

	c, _ := net.Dial("tcp", front.Addr().String())
	_, _ = c.Write([]byte("ping"))
	answer := make([]byte, 4)
	_, _ = io.ReadFull(c, answer)
	_ = c.Close()
	_ = front.Close()
	fmt.Printf("%s %v %v\n", answer, <-done, w.Close())
	// Output: ping <nil> <nil>
}
