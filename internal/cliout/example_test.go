package cliout_test

import (
	"fmt"
	"io"

	"github.com/stag-rdma/stag/internal/cliout"
)

// A command prints without looking, and asks once at its end.
func ExampleNew() {
	r, w := io.Pipe()
	r.Close() // the reader has gone
	out := cliout.New(w)
	fmt.Fprintln(out, "a table")
	fmt.Println(out.Err())
	// Output: io: read/write on closed pipe
}
