package measure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
)

// Three rounds of two sides, and the bound of their ratio.
func Example() {
	pass := measure.Print(os.Stdout, []measure.Result{{
		Name: "push against WRITE", Unit: "us", Base: []float64{100, 120, 110}, Ours: []float64{50, 72, 44}, Gate: 0.6, Goal: 0.5, AtMost: true,
	}})
	fmt.Println(pass, measure.Median([]float64{3, 1, 2}))
	// Output:
	// measured            unit  baseline  stag  ratio (min-max)   gate        goal
	// push against WRITE  us    110       50    0.50 (0.40-0.60)  <= 0.60 ok  <= 0.50 ok
	// true 2
}

// A chart of two lines, each on an axis of its own.
func ExampleChart() {
	c := measure.Chart{Title: "Latency", XName: "octets", X: []int{512, 4096}, Lines: []measure.Line{
		{Name: "us", Color: measure.Blue, Y: []float64{20, 40}},
		{Name: "CPU", Color: measure.Blue, Right: true, Y: []float64{1, 2}},
	}}
	fmt.Println(strings.Count(c.SVG(), "<polyline"), measure.Short(4096))
	// Output: 2 4K
}

// Two groups of two bars; one figure is missing.
func ExampleBars() {
	b := measure.Bars{Title: "ratios", Series: []string{"RDMA", "TCP"}, Groups: []measure.Group{
		{Name: "WRITE", Values: []float64{1.5, 1}}, {Name: "READ", Values: []float64{math.NaN(), 1}},
	}}
	fmt.Println(strings.Count(b.SVG(), ">1.50<"), strings.Count(b.SVG(), ">1.00<"))
	// Output: 1 2
}

// What this process uses meanwhile.
func ExampleProcessUsage() {
	before, err := measure.ProcessUsage(os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Println("true true")
		return
	}
	for u := before; u.Since(before).CPU < time.Millisecond; u, _ = measure.ProcessUsage(os.Getpid()) {
	}
	_, gone := measure.ProcessUsage(-1)
	fmt.Println(err == nil, errors.Is(gone, fs.ErrNotExist))
	// Output: true true
}

// Figures of calls.
func ExampleMedianOf() {
	us, err := measure.MedianOf(3, func() error { time.Sleep(time.Millisecond); return nil })
	rate, rerr := measure.Rate(2, 5*time.Millisecond, func(int) error { time.Sleep(time.Millisecond); return nil })
	fmt.Println(us >= 1000, rate > 0 && rate <= 2000, err, rerr)
	// Output: true true <nil> <nil>
}

// Both ends use the same congestion control.
func ExampleListen() {
	l, err := measure.Listen()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	c, err := measure.Dial(l.Addr().String())
	if err == nil {
		err = c.Close()
	}
	fmt.Println(err)
	// Output: <nil>
}

// Two rounds of a case of two measurements.
func ExampleRun() {
	took := func(us float64) func() (float64, error) {
		return func() (float64, error) { return us, nil }
	}
	results, err := measure.Run([]measure.Case{{
		Result: measure.Result{Name: "push against WRITE", Unit: "us", Gate: 0.6, AtMost: true},
		Round:  measure.Pair(took(100), took(50)),
	}}, "push", 2, nil)
	fmt.Println(results[0].Ratios(), results[0].Pass(), err)
	// Output: [0.5 0.5] true <nil>
}

// The other process says where it is; here the program is a test that says something else.
func ExampleServePeer() {
	_ = measure.ServePeer(map[string]string{"addr": "127.0.0.1:1"}, strings.NewReader(""), os.Stdout)
	var p map[string]string
	_, err := measure.StartPeer(context.Background(), &p, io.Discard, "-test.run=^$")
	fmt.Println(err != nil)
	// Output:
	// {"addr":"127.0.0.1:1"}
	// true
}
