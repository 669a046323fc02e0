package pushwrite_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A server whose files can be written by records of a log, and a client that does it.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "pushwrite")
	defer os.RemoveAll(dir)
	fsys := mem.New(nil)
	node, _, _ := fsys.Root().Create("file", &backend.Init{})

	commits, _ := net.Listen("tcp", "127.0.0.1:0") // for the records
	calls, _ := net.Listen("tcp", "127.0.0.1:0")   // for everything else
	pw, err := pushwrite.Open(&pushwrite.Config{Dir: dir, Addr: commits.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pw.Close(ctx)
	srv, _ := server.New(&server.Config{
		Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}, Guard: pw,
	})
	_ = pw.Start(ctx, srv) // applies what logs hold
	go pw.Serve(commits)
	ts := &transport.Server{Handler: srv, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
	go ts.Serve(calls)
	defer ts.Close()

	caller, _ := transport.Dial(ctx, "tcp", calls.Addr().String(), nil) // give it a Backward.Handler
	defer caller.Close()
	root, _ := nfsclient.NewMounter(caller, &xdr.SysCred{}).Mount(ctx, "/export")
	log, _ := push.Dial(ctx, caller, "log-of-mine", &push.Config{
		Secret: push.NewSecret(), // which was kept, durably
	})
	defer log.Close(ctx)

	file := node.AppendHandle(append([]byte(nil), root[:4]...))
	args := pushfile.OpenArgs{Session: pushfile.Session(log.ID()), File: file}
	call := rpc.Call{
		Prog: pushfile.Program, Vers: pushfile.Version, Proc: pushfile.ProcOpen,
		Cred: (&xdr.SysCred{}).Auth(), Args: args.Append(nil), MaxResults: 64,
	}
	var reply rpc.Reply
	defer reply.Release()
	_ = caller.Do(ctx, &call, &reply)
	var opened pushfile.OpenRes
	d := xdr.NewDecoder(reply.Results)
	opened.Parse(&d)
	fmt.Println(opened.Status.String(), opened.Lease)

	record := pushfile.Record{Lease: opened.Lease, Offset: 6, Data: []byte("octets")}
	result, err := log.Append(ctx, record.Append(nil))
	fmt.Println(result.Level, err)
	_ = pw.Look(ctx, file) // as every NFS operation does
	a, _ := node.Attr()
	fmt.Println(a.Size, pw.Stats().Records)
	// Output:
	// ok 1
	// persistent <nil>
	// 12 1
}

// A directory in whose logs nothing waits, and a lease that nothing can be lost with.
func ExampleInspect() {
	dir, _ := os.MkdirTemp("", "pushwrite")
	defer os.RemoveAll(dir)
	pw, err := pushwrite.Open(&pushwrite.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(w *pushwrite.Waiting) error {
		fmt.Println(w.Log, w.Record, w.Lease, w.File, w.Offset, w.Octets)
		return nil
	}
	fmt.Println(errors.Is(pushwrite.Inspect(dir, pmem.File, show), pmem.ErrLocked)) // while it is open
	_ = pw.Close(context.Background())
	fmt.Println(pushwrite.Inspect(dir, pmem.File, show))
	fmt.Println(pushwrite.Discard(dir, 7))
	fmt.Println(errors.Is(pushwrite.GiveUp(dir, "mine"), pushwrite.ErrNoLog))
	// Output:
	// true
	// <nil>
	// lease 7: pushwrite: no such lease (Inspect lists the leases with waiting records)
	// true
}
