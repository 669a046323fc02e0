package main

import (
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/stag-rdma/stag/transport"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:20049", "address to serve NFS/RDMA on")
	flag.Parse()
	if err := run(*addr); err != nil {
		fmt.Fprintln(os.Stderr, "gonfs:", err)
		os.Exit(1)
	}
}

// run serves an empty file system until it fails.
func run(addr string) error {
	l, err := transport.Listen("tcp", addr, nil)
	if err != nil {
		return err
	}
	fmt.Println("serving NFS/RDMA on", l.Addr())
	return serve(l, memfs.New())
}

// cachedHandles is how many file handles go-nfs remembers.
const cachedHandles = 1024

// serve is all there is to it: go-nfs as its own documentation has it.
func serve(l net.Listener, fs billy.Filesystem) error {
	handler := helpers.NewNullAuthHandler(fs)
	return nfs.Serve(l, helpers.NewCachingHandler(handler, cachedHandles))
}
