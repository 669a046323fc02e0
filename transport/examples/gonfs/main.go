package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/stag-rdma/stag/transport"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:20049", "address for NFS/RDMA")
	mount := flag.String("mount-listen", "", "address for MOUNT over TCP, which the Linux client needs")
	flag.Parse()
	if err := run(*addr, *mount); err != nil {
		fmt.Fprintln(os.Stderr, "gonfs:", err)
		os.Exit(1)
	}
}

// run serves an empty file system until it fails or is interrupted.
func run(addr, mount string) error {
	// go-nfs handles one call at a time per connection: let one RDMA connection appear as four.
	l, err := transport.Listen("tcp", addr, &transport.Config{Fanout: 4})
	if err != nil {
		return err
	}
	h := handler(memfs.New())
	if mount != "" {
		ml, err := net.Listen("tcp", mount)
		if err != nil {
			return err
		}
		go nfs.Serve(ml, h) // the same handler: it knows the handles
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { l.Close() })
	fmt.Println("serving NFS/RDMA on", l.Addr())
	err = nfs.Serve(l, h)
	st := l.(*transport.Listener).Stats()
	fmt.Printf("%d calls, %d octets by RDMA Read, %d by RDMA Write\n", st.Calls, st.OctetsRead, st.OctetsWritten)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// cachedHandles is how many file handles go-nfs remembers.
const cachedHandles = 1024

// handler is go-nfs as in its own documentation; only nfs.Serve is left to call.
func handler(fs billy.Filesystem) nfs.Handler {
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(changeable{fs}), cachedHandles)
}

// changeable is a file system that ignores changes of attributes: go-nfs makes no files in a file
// system that cannot change them.
type changeable struct{ billy.Filesystem }

var _ billy.Change = changeable{}

func (changeable) Chmod(string, os.FileMode) error            { return nil }
func (changeable) Lchown(string, int, int) error              { return nil }
func (changeable) Chown(string, int, int) error               { return nil }
func (changeable) Chtimes(string, time.Time, time.Time) error { return nil }

// OpenFile ignores O_EXCL without O_CREATE, as Linux does: go-nfs truncates files that way, and memfs
// would answer that they exist.
func (c changeable) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	if flag&os.O_CREATE == 0 {
		flag &^= os.O_EXCL
	}
	return c.Filesystem.OpenFile(name, flag, perm)
}
