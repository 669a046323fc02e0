package nfsclient_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

func ExampleParseURL() {
	u, err := nfsclient.ParseURL("nfs+rdma://fileserver/export/my%20file?mountport=20048")
	fmt.Println(u.Addr(), u.MountAddr(), u.Path, err)
	_, err = nfsclient.ParseURL("http://fileserver/export")
	fmt.Println(err)
	// Output:
	// fileserver:20049 fileserver:20048 /export/my file <nil>
	// http://fileserver/export: scheme "http" is not supported: use nfs+rdma://, nfs+rdma+tls:// or nfs://
}

// startServer serves an empty file system over RDMA and returns its URL.
func startServer() (url string, stop func()) {
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		_ = s.Serve(l)
		close(done)
	}()
	return "nfs+rdma://" + l.Addr().String() + "/export", func() {
		_ = s.Close()
		<-done
	}
}

func ExampleDial() {
	url, stop := startServer()
	defer stop()
	ctx := context.Background()

	u, _ := nfsclient.ParseURL(url)
	c, err := nfsclient.Dial(ctx, u, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	n, _ := c.Create(ctx, c.Root(), "hello.txt", 0o644, true)
	written, err := c.WriteFrom(ctx, n, bytes.NewReader([]byte("hello, world\n")), 0, -1, nil)
	fmt.Println(written, err)

	n, _ = c.Lookup(ctx, "/export/hello.txt")
	out := nfsclient.NewOrderedWriter(ctx, os.Stdout, 0)
	defer out.Close()
	read, err := c.ReadTo(ctx, n, out, 0, nil)
	fmt.Println(read, err)
	// Output:
	// 13 <nil>
	// hello, world
	// 13 <nil>
}

// An export as a web site.
func ExampleClient_FS() {
	url, stop := startServer()
	defer stop()
	ctx := context.Background()
	u, _ := nfsclient.ParseURL(url)
	c, err := nfsclient.Dial(ctx, u, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	n, _ := c.Create(ctx, c.Root(), "hello.txt", 0o644, true)
	_, _ = c.WriteFrom(ctx, n, strings.NewReader("hello over NFS/RDMA"), 0, -1, nil)

	web := httptest.NewServer(http.FileServerFS(c.FS(ctx)))
	defer web.Close()
	resp, err := http.Get(web.URL + "/hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Header.Get("Content-Type"), string(text))
	// Output: text/plain; charset=utf-8 hello over NFS/RDMA
}
