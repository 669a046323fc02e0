package capturetest_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stag-rdma/stag/internal/capturetest"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// test stands for a *testing.T, which an Example does not have.
type test struct {
	*testing.T
	after []func()
}

func (t *test) Helper()          {}
func (t *test) Cleanup(f func()) { t.after = append(t.after, f) }

// A test that has a capture of its own.
func ExampleRelayed() {
	t := &test{} // a *testing.T
	var out bytes.Buffer
	w, _ := capture.NewWriter(&out)
	l, _ := net.Listen("tcp", "127.0.0.1:0") // a server
	c, _ := net.Dial("tcp", capturetest.Relayed(t, w, l.Addr().String()))
	s, _ := l.Accept()
	_, _ = io.WriteString(c, "hello")
	_, _ = io.ReadFull(s, make([]byte, 5))
	c.Close()
	s.Close()
	l.Close()
	for _, f := range t.after {
		f()
	}
	fmt.Println(w.Close(), bytes.Contains(out.Bytes(), []byte("hello")))
	// Output: <nil> true
}
