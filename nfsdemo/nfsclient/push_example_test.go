package nfsclient_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
)

// startPushServer is startServer for a server that takes push-mode writes.
func startPushServer() (url string, stop func()) {
	dir, _ := os.MkdirTemp("", "push")
	commits, _ := net.Listen("tcp", "127.0.0.1:0")
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	pw, err := pushwrite.Open(&pushwrite.Config{Dir: dir, Addr: commits.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	h, err := server.New(&server.Config{
		Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}, Guard: pw,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := pw.Start(context.Background(), h); err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: h, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}}
	go pw.Serve(commits)
	go s.Serve(calls)
	return "nfs+rdma://" + calls.Addr().String() + "/export", func() {
		_ = s.Close()
		_ = pw.Close(context.Background())
		_ = os.RemoveAll(dir)
	}
}

// A file is copied to a server by appending to a log there.
func ExampleClient_PushFrom() {
	url, stop := startPushServer()
	defer stop()
	ctx := context.Background()
	u, _ := nfsclient.ParseURL(url)
	mine := push.NewSecret() // to be kept, before it is used, where the next process finds it, and nobody else
	c, err := nfsclient.Dial(ctx, u, &nfsclient.Config{Push: &nfsclient.PushConfig{
		Log: "mine", Secret: mine,
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	n, _ := c.Create(ctx, c.Root(), "file", 0o644, true)
	data := bytes.NewReader([]byte("durable before the server's processor has seen it\n"))
	r, err := c.PushFrom(ctx, n, data, data.Size(), nil)
	fmt.Println(r.Size, r.Pushed, r.Rung, r.Level, r.Why, err)
	// Output:
	// 50 50 native persistent <nil> <nil>
}

// A file that is written to here and there, durably each time.
func ExampleClient_OpenPush() {
	url, stop := startPushServer()
	defer stop()
	ctx := context.Background()
	u, _ := nfsclient.ParseURL(url)
	c, err := nfsclient.Dial(ctx, u, &nfsclient.Config{Push: &nfsclient.PushConfig{
		Log: "mine", Secret: push.NewSecret(),
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	n, _ := c.Create(ctx, c.Root(), "journal", 0o644, true)
	f, err := c.OpenPush(ctx, n, 1<<20)
	if err != nil {
		log.Fatal(err) // WriteFrom would do
	}
	for i, entry := range []string{"one ", "two ", "three\n"} {
		_, level, err := f.WriteAt(ctx, []byte(entry), int64(4*i))
		fmt.Println(level, err)
	}
	fmt.Println(f.Rung(), f.Close(ctx)) // and all of it is in the file
	// Output:
	// persistent <nil>
	// persistent <nil>
	// persistent <nil>
	// native <nil>
}

// createLog makes a file for a log of replies.
func createLog(path string, size int) *pmem.Memory {
	_ = pmem.Create(path, size, nil)
	m, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		log.Fatal(err)
	}
	_ = replies.Create(m, nil)
	return m
}

// Changes that count as answered when their answer is durable here.
func ExampleClient_Replies() {
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}})
	if err != nil {
		log.Fatal(err)
	}
	logs, _ := net.Listen("tcp", "127.0.0.1:0")
	calls, _ := net.Listen("tcp", "127.0.0.1:0")
	pusher := &replies.Pusher{Handler: h, Addr: logs.Addr().String()}
	s := &transport.Server{Handler: pusher}
	go pusher.Serve(logs)
	go s.Serve(calls)
	defer pusher.Close()
	defer s.Close()

	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "replies")
	defer os.RemoveAll(dir)
	mine, asked := createLog(dir+"/replies", 1<<16), createLog(dir+"/calls", replies.MinCalls)
	defer mine.Close()
	defer asked.Close()
	u, _ := nfsclient.ParseURL("nfs+rdma://" + calls.Addr().String() + "/export")
	c, err := nfsclient.Dial(ctx, u, &nfsclient.Config{Replies: &replies.Config{Memory: mine, Calls: asked}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(len(c.Replies().Recovered()), len(c.Replies().Unanswered())) // of a run before
	_, err = c.Mkdir(ctx, c.Root(), "dir", 0o755)
	fmt.Println(err)
	// Output:
	// 0 0
	// <nil>
}
