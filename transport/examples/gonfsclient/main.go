package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	trpc "github.com/stag-rdma/stag/transport/rpc"
	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
)

func main() {
	addr := flag.String("server", "127.0.0.1:20049", "address of the NFS/RDMA server, which must answer MOUNT there too")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: gonfsclient [-server host:port] EXPORT FILE")
		os.Exit(2)
	}
	if err := cat(os.Stdout, *addr, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "gonfsclient:", err)
		os.Exit(1)
	}
}

// cat copies a file to w.
func cat(w io.Writer, addr, export, file string) error {
	target, done, err := mount(addr, export)
	if err != nil {
		return err
	}
	defer done()
	f, err := target.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// mount is go-nfs-client as in its own documentation, on the loopback port of a proxy. done closes
// what was opened.
func mount(addr, export string) (target *nfs.Target, done func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	p := &proxy.Proxy{Dial: func(ctx context.Context, _ trpc.Handler) (proxy.Server, error) {
		return transport.Dial(ctx, "tcp", addr, nil)
	}}
	go p.ServeStream(l) //nolint:errcheck // ends with Close
	c, err := dial(l.Addr().String())
	if err == nil {
		m := nfs.Mount{Client: c}
		if target, err = m.Mount(export, rpc.NewAuthUnix("gonfsclient", uint32(os.Getuid()), uint32(os.Getgid())).Auth()); err == nil {
			return target, func() { c.Close(); p.Close() }, nil
		}
		c.Close()
	}
	p.Close()
	return nil, nil, err
}

// dial is rpc.DialTCP, which chooses its local port at random and fails if that port is taken: then
// dial tries again.
func dial(addr string) (c *rpc.Client, err error) {
	for range 100 {
		if c, err = rpc.DialTCP("tcp", addr, false); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return c, err
}
