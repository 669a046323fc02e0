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
	// nfsdemo: no argument is a URL: use cp(1) for local files
	// 2
}

func ExampleCommand() {
	for _, c := range cli.Command().Commands() {
		if c.Name() == "serve" {
			fmt.Println(c.Short)
		}
	}
	// Output: Serve a directory over NFS/RDMA
}
