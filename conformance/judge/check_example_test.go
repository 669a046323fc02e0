package judge_test

import (
	"fmt"

	"github.com/stag-rdma/stag/conformance/judge"
)

// printer stands for the *testing.T of a test.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// A test of another project: the capture of its peers must be clean, or as the file beside it says.
func ExampleCheck() {
	var t printer // func TestTraffic(t *testing.T) {
	judge.Check(t, "../testdata/pcaps/d-reject.pcap")
	judge.Check(t, "nosuch.pcap")
	// Output: judge: open nosuch.pcap: no such file or directory
}

// What a breach looks like.
func ExampleRule_Sample() {
	r, _ := judge.Find("MPA-031")
	fmt.Println(r.Sample())
	// Output: frame 3 > pad 000072
}
