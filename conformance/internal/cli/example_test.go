package cli_test

import (
	"bytes"
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/cli"
)

func ExampleMain() {
	var out, errs bytes.Buffer
	status := cli.Main([]string{"decode", "--counts", "../../testdata/pcaps/d-reject.pcap"}, nil, &out, &errs)
	fmt.Println(status)
	fmt.Print(out.String())
	// Output:
	// 0
	// mpa.rep          1
	// mpa.req          1
}
