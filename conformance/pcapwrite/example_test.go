package pcapwrite_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/stag-rdma/stag/conformance/pcapwrite"
)

func ExampleNewWriter() {
	var file bytes.Buffer
	w, err := pcapwrite.NewWriter(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := w.Conn(netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:20049"))
	_ = c.Write(pcapwrite.ToServer, []byte("MPA ID Req Frame"))
	_ = c.Close()
	fmt.Println(file.Len(), "octets, error:", w.Err())
	// Output: 490 octets, error: <nil>
}

func ExampleWriter_Tap() {
	var file bytes.Buffer
	w, err := pcapwrite.NewWriter(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, b := net.Pipe()
	go func() { _, _ = io.Copy(b, b) }() // echo
	c := w.Tap(a, true)
	_, _ = c.Write([]byte("ping"))
	_, _ = io.ReadFull(c, make([]byte, 4))
	fmt.Println(c.Close(), w.Err(), file.Len() > 0)
	// Output: <nil> <nil> true
}

func ExampleWriter_Relay() {
	w, _ := pcapwrite.NewWriter(io.Discard) // a file, in earnest
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
	fmt.Printf("%s %v\n", answer, <-done)
	// Output: ping <nil>
}
