// Command man writes the manual pages of nfsdemo into a directory, one for each command.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "man: want the directory to write to")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes the pages. SOURCE_DATE_EPOCH sets their date.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := cli.Command()
	cmd.DisableAutoGenTag = true
	return doc.GenManTree(cmd, &doc.GenManHeader{Section: "1", Source: "stag", Manual: "nfsdemo"}, dir)
}
