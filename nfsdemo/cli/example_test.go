package cli_test

import (
	"context"
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

// A program that serves files of its own has the command, the flags and the messages of nfsdemo serve.
func ExampleMainOf() {
	st := &cli.Storage{
		Program: "attic", Short: "What is in the attic, over NFS/RDMA", Arg: "DOOR",
		Open: func(_ context.Context, door string) (cli.Volume, error) {
			return nil, fmt.Errorf("%s is locked: fetch the key", door)
		},
	}
	status := cli.MainOf(st, []string{"serve", "/hatch", "--listen", "127.0.0.1:0"}, os.Stdin, os.Stdout, os.Stdout)
	fmt.Println(status)
	// Output:
	// attic: /hatch is locked: fetch the key
	// 1
}
