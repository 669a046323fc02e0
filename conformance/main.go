// Command conformance looks at iWARP and RPC-over-RDMA from outside. See
//
//	go run ./conformance --help
//
// Its tests also check the project itself: the layering, the documentation.
package main

import (
	"os"

	"github.com/stag-rdma/stag/conformance/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
