// Command nfsdemo serves a directory over NFSv3 on RPC-over-RDMA, and reads and
// writes files on such servers, without RDMA hardware, drivers or root.
//
// Run "nfsdemo --help", or package nfsdemo/cli for the commands.
package main

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
