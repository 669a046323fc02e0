package page_test

import (
	"bytes"
	"fmt"
	"os"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/page"
)

func ExampleNew() {
	f, err := os.Open("../../testdata/pcaps/d-reject.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	p, j := page.New("d-reject.pcap", nil), judge.NewBuilder(nil)
	for ev, err := range decode.Events(f, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		p.Event(ev)
		j.Event(ev)
	}
	var out bytes.Buffer
	err = p.Write(&out, j.Report())
	fmt.Println(bytes.Contains(out.Bytes(), []byte("<title>d-reject.pcap</title>")), err)
	// Output: true <nil>
}
