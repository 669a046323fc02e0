package main

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// start serves an empty file system over RDMA.
func start(t *testing.T) (*transport.Server, string) {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return s, l.Addr().String()
}

// TestClient writes a file with an unmodified go-nfs-client and reads it again; the
// data of both travel in chunks.
func TestClient(t *testing.T) {
	s, addr := start(t)
	target, done, err := mount(addr, "/export")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	want := make([]byte, 300001)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(want)
	f, err := target.OpenFile("/file", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := cat(&got, addr, "/export", "/file"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d octets came back, but not those that were written", got.Len())
	}
	if st := s.Stats(); st.OctetsRead < 290000 || st.OctetsWritten < 290000 { // the rest of a file may fit inline
		t.Errorf("%d octets by RDMA Read, %d by RDMA Write: not in chunks", st.OctetsRead, st.OctetsWritten)
	}
}
