package rdmaptest_test

import (
	"fmt"
	"io"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// A connection in memory whose octets arrive in odd pieces.
func ExamplePipe() {
	a, b := rdmaptest.Pipe()
	rec := &rdmaptest.Record{Conn: &rdmaptest.Fragment{Conn: b, MaxRead: 2, Seed: 1}}
	io.WriteString(a, "hello")
	a.Close()
	text, err := io.ReadAll(rec)
	fmt.Printf("%s %v %q\n", text, err, rec.In())
	// Output: hello <nil> "hello"
}
