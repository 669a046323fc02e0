//go:build ignore

// Command walk makes one NFS WRITE of 64 KiB, one READ, one GETATTR and one append to a commit log between two processes,
// after 30 that do not count, and leaves behind which functions each process has entered. walk.sh builds it so that
// it counts, and prints the numbers.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
)

func main() {
	if dir := os.Args[2]; os.Args[1] == "serve" {
		serve(dir)
	} else {
		call(dir)
	}
}

// call is the client: walk call DIRECTORY. The counters are in DIRECTORY/client-OPERATION and DIRECTORY/server-OPERATION.
func call(dir string) {
	cmd := exec.Command(os.Args[0], "serve", dir)
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	from := bufio.NewReader(out)
	line := func() string {
		s, err := from.ReadString('\n')
		must(err)
		return s
	}
	var addr, logAddr string
	_, err = fmt.Sscan(line(), &addr, &logAddr)
	must(err)

	ctx := context.Background()
	u, err := nfsclient.ParseURL("nfs+rdma://" + addr + "/e")
	must(err)
	c, err := nfsclient.Dial(ctx, u, nil)
	must(err)
	file, err := c.Create(ctx, c.Root(), "f", 0o644, true)
	must(err)
	p := commitlog.NewProducer(nil)
	conn, err := net.Dial("tcp", logAddr)
	must(err)
	rc := rdmap.Client(conn, p.Config(nil))
	must(rc.Handshake(ctx))
	must(p.Attach(ctx, rc))

	data, buf := make([]byte, 64<<10), make([]byte, 64<<10)
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error {
			_, err := c.WriteFrom(ctx, file, bytes.NewReader(data), 0, int64(len(data)), nil)
			return err
		}},
		{"read", func() error { _, err := c.ReadAt(ctx, file, buf, 0); return err }}, // what was written
		{"getattr", func() error { return c.Refresh(ctx, file) }},
		{"append", func() error { _, err := p.Append(ctx, data[:1000]); return err }},
	} {
		for range 30 {
			must(op.do())
		}
		// What the last one leaves behind, such as the end of a flush, is not part of the one that counts.
		time.Sleep(300 * time.Millisecond)
		_, err := fmt.Fprintln(in)
		must(err)
		line()
		must(coverage.ClearCounters())
		must(op.do())
		leave(filepath.Join(dir, "client-"+op.name))
		time.Sleep(100 * time.Millisecond) // the server may still be finishing it
		_, err = fmt.Fprintln(in, filepath.Join(dir, "server-"+op.name))
		must(err)
		line()
	}
	must(in.Close())
	must(cmd.Wait())
}

// serve is the server. For each line on standard input it leaves what it has entered in the directory that the line names,
// or forgets it if the line is empty.
func serve(dir string) {
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/e", FS: mem.New(nil), Squash: server.SquashNone}}})
	must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s := &transport.Server{Handler: h}
	go func() { must(s.Serve(l)) }()

	path := filepath.Join(dir, "log")
	size, err := commitlog.MemorySize(1 << 20)
	must(err)
	must(pmem.Create(path, size, nil))
	m, err := pmem.Open(pmem.File, path, nil)
	must(err)
	must(commitlog.Create(m, nil))
	log, err := commitlog.Open(m)
	must(err)
	ll, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		conn, err := ll.Accept()
		must(err)
		c := rdmap.Server(conn, commitlog.Config(nil))
		must(c.Handshake(context.Background()))
		_ = log.Serve(context.Background(), c) // ends with the client
	}()

	fmt.Println(l.Addr(), ll.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		if in.Text() == "" {
			must(coverage.ClearCounters())
		} else {
			leave(in.Text())
		}
	}
}

// leave writes what this process has entered into a new directory.
func leave(dir string) {
	must(os.MkdirAll(dir, 0o755))
	must(coverage.WriteMetaDir(dir))
	must(coverage.WriteCountersDir(dir))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
