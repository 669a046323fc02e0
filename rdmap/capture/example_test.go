package capture_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

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
