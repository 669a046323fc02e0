// Command nfsdemo serves a directory over NFSv3 on RPC-over-RDMA, and reads and writes files on such
// servers, without RDMA hardware, drivers or root.
//
// For the commands run "nfsdemo --help", or see package nfsdemo/cli.
package main

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
