package cli_test

import (
	"fmt"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func ExampleMain() {
	status := cli.Main([]string{"cp", "here", "there"}, os.Stdin, os.Stdout, os.Stdout)
	fmt.Println(status)
	// Output:
	// nfsdemo: none of these is a URL: use cp(1) for local files
	// 2
}
