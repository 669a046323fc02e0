package bench

import (
	"io"

	"github.com/stag-rdma/stag/internal/measure"
)

// Result is one line of a report; see [measure.Result].
type Result = measure.Result

// ErrNoCase: no case has such a name.
var ErrNoCase = measure.ErrNoCase

// Print writes the results as a table and reports whether all gates passed.
func Print(w io.Writer, results []Result) (pass bool) { return measure.Print(w, results) }

// The method, which nfsdemo shares.
var (
	listen   = measure.Listen
	dial     = measure.Dial
	reno     = measure.Reno
	median   = measure.Median
	medianOf = measure.MedianOf
	writers  = measure.Rate
	cpuTime  = measure.CPU
)
