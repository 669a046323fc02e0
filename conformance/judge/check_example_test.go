package judge_test

import (
	"fmt"
	"os"
	"strings"

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

// A capture of the Linux kernel, whose startup is refused and tried again.
func ExampleFile() {
	f, err := os.Open("../testdata/pcaps/f-nfs3-mpav1-ops.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r, err := judge.File(f)
	fmt.Println(len(r.Connections) > 0, r.Verdict, err)
	// Output: true clean <nil>
}

// What a breach looks like.
func ExampleViolation() {
	f, err := os.Open("../testdata/pcaps/d-mpa-bad.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r, _ := judge.File(f)
	v := r.Violations[0]
	fmt.Println(r.Verdict, v)
	fmt.Printf("%s (%s): %s\n", v.Rule.Source, v.Rule.Level, v.Rule.Text)
	// Output:
	// violations MPA-030 conn 2 > frame 24: CRC 86eaad23 does not match the FPDU of 92 octets
	// RFC 5044 Section 4.4 (MUST): The CRC of an FPDU is right when either startup frame asked for CRCs.
}

// All rules of MPA.
func ExampleRules() {
	n := 0
	for _, r := range judge.Rules() {
		if strings.HasPrefix(r.ID, "MPA-") {
			n++
		}
	}
	fmt.Println(n > 2)
	// Output: true
}
