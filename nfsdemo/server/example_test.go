package server_test

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A file system in memory, served over record-marked TCP, and asked for its exports.
func Example() {
	h, err := server.New(&server.Config{
		Exports: []server.Export{{Path: "/scratch", FS: mem.New(nil)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &transport.Server{Handler: h}
	defer s.Close()
	go s.ServeStream(l)

	c, err := transport.DialStream(context.Background(), "tcp", l.Addr().String(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	var reply rpc.Reply
	call := rpc.Call{Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(mount3.ProcExport)}
	if err := c.Do(context.Background(), &call, &reply); err != nil {
		fmt.Println(err)
		return
	}
	var res mount3.ExportRes
	d := xdr.NewDecoder(reply.Results)
	fmt.Println(xdr.Decode(&d, &res).Err(), res.Exports)
	// Output: <nil> [{/scratch []}]
}
