package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	nfs "github.com/willscott/go-nfs"
)

// Programs and procedures of RFC 1813.
const (
	nfsProg, mountProg, version3 = 100003, 100005, 3

	procMnt    = 1
	procLookup = 3
	procRead   = 6
	procWrite  = 7
	procCreate = 8
)

// client calls the procedures that the tests need.
type client struct {
	t *testing.T
	c rpc.Caller
}

// start serves fs on loopback and connects.
func start(t *testing.T, fs billy.Filesystem) (*transport.Listener, *client) {
	t.Helper()
	return startWith(t, fs, &transport.Config{InlineSend: 4096}) // as Linux
}

func startWith(t *testing.T, fs billy.Filesystem, cfg *transport.Config) (*transport.Listener, *client) {
	t.Helper()
	nfs.Log.SetLevel(nfs.ErrorLevel)
	l, err := transport.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- nfs.Serve(l, handler(fs)) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
		<-done
	})
	return l.(*transport.Listener), &client{t, c}
}

// do makes a call and returns its results behind an OK status.
func (c *client) do(call *rpc.Call) (*rpc.Reply, xdr.Decoder) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	call.Vers = version3
	var r rpc.Reply
	if err := c.c.Do(ctx, call, &r); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Release)
	if err := r.Header.Err(); err != nil {
		c.t.Fatal(err)
	}
	d := xdr.NewDecoder(r.Results)
	if status := d.Uint32(); status != 0 || d.Err() != nil {
		c.t.Fatalf("program %d procedure %d: status %d, %v", call.Prog, call.Proc, status, d.Err())
	}
	return &r, d
}

// mount returns the handle of the root.
func (c *client) mount() []byte {
	_, d := c.do(&rpc.Call{Prog: mountProg, Proc: procMnt, Args: xdr.AppendString(nil, "/")})
	return d.Opaque(64)
}

// lookup returns the handle of a name in dir.
func (c *client) lookup(dir []byte, name string) []byte {
	args := xdr.AppendString(xdr.AppendOpaque(nil, dir), name)
	_, d := c.do(&rpc.Call{Prog: nfsProg, Proc: procLookup, Args: args, MaxResults: 248})
	return d.Opaque(64)
}

// read reads into sink and reports whether RDMA placed the data there.
func (c *client) read(fh, sink []byte) (n int, eof, placed bool) {
	args := xdr.AppendUint64(xdr.AppendOpaque(nil, fh), 0)
	args = xdr.AppendUint32(args, uint32(len(sink)))
	r, d := c.do(&rpc.Call{Prog: nfsProg, Proc: procRead, Args: args, Sink: sink, MaxResults: 104})
	if d.Bool() {
		d.Skip(84) // attributes
	}
	n, eof = int(d.Uint32()), d.Bool()
	if count := int(d.Uint32()); count != n || d.Err() != nil {
		c.t.Fatalf("count %d, opaque of %d, %v", n, count, d.Err())
	}
	return copy(sink, r.Item), eof, r.Placed
}

// write writes data at offset 0.
func (c *client) write(fh, data []byte) {
	n := uint32(len(data))
	args := xdr.AppendUint64(xdr.AppendOpaque(nil, fh), 0)
	args = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(args, n), 2), n) // count, FILE_SYNC, count
	c.do(&rpc.Call{Prog: nfsProg, Proc: procWrite, Args: args, Item: data, ItemPos: len(args), MaxResults: 136})
}

// pattern returns n octets that depend on their place.
func pattern(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// put stores a file.
func put(t *testing.T, fs billy.Filesystem, name string, data []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCreateEmpty makes a file as clients do that truncate: with a size of 0 (RFC 1813 Section 3.3.8).
func TestCreateEmpty(t *testing.T) {
	fs := memfs.New()
	put(t, fs, "file", pattern(10))
	_, c := start(t, fs)
	args := xdr.AppendString(xdr.AppendOpaque(nil, c.mount()), "file")
	for _, word := range []uint32{0, 0, 0, 0, 1, 0, 0, 0, 0} { // UNCHECKED, no mode, uid, gid; size 0; no times
		args = xdr.AppendUint32(args, word)
	}
	c.do(&rpc.Call{Prog: nfsProg, Proc: procCreate, Args: args, MaxResults: 280})
	if info, err := fs.Stat("file"); err != nil || info.Size() != 0 {
		t.Error(info, err)
	}
}

// TestReadByWriteChunk reads 64 KiB from an unmodified go-nfs. The data leave by a
// write chunk (RFC 8267 Section 4): by RDMA Write into the reader's memory, and not
// in the reply's Send.
func TestReadByWriteChunk(t *testing.T) {
	fs, want := memfs.New(), pattern(64<<10)
	put(t, fs, "file", want)
	l, c := start(t, fs)
	fh := c.lookup(c.mount(), "file")

	before := l.Stats()
	got := make([]byte, len(want))
	n, eof, placed := c.read(fh, got)
	after := l.Stats()

	if !bytes.Equal(got[:n], want) || !eof {
		t.Errorf("%d octets, eof %v, not what was stored", n, eof)
	}
	if !placed {
		t.Error("the data came in the reply")
	}
	if d := after.OctetsWritten - before.OctetsWritten; d != uint64(len(want)) {
		t.Errorf("%d octets by RDMA Write, want %d", d, len(want))
	}
	if d := after.OctetsInline - before.OctetsInline; d > 1024 {
		t.Errorf("%d octets inline for one READ", d)
	}
}

// TestWriteByReadChunk writes odd lengths; the server pulls the data by RDMA Read.
// TestWriteInline: data that fit a Send of a stag client reach go-nfs without a Read.
func TestWriteInline(t *testing.T) {
	for _, size := range []int{1, 3000, 4097, 65537} {
		fs := memfs.New()
		put(t, fs, "file", nil)
		l, c := startWith(t, fs, nil)
		fh := c.lookup(c.mount(), "file")
		want := pattern(size)
		before := l.Stats()
		c.write(fh, want)
		if pulled := l.Stats().OctetsRead - before.OctetsRead; pulled != 0 {
			t.Errorf("%d of %d octets by RDMA Read, want none", pulled, size)
		}
		got := make([]byte, size+1)
		if n, eof, _ := c.read(fh, got); !bytes.Equal(got[:n], want) || !eof {
			t.Errorf("%d octets came back as %d different ones", size, n)
		}
	}
}

func TestWriteByReadChunk(t *testing.T) {
	for _, size := range []int{1, 3000, 4097, 65537, 1 << 20} {
		fs := memfs.New()
		put(t, fs, "file", nil)
		l, c := start(t, fs)
		fh := c.lookup(c.mount(), "file")
		want := pattern(size)
		before := l.Stats()
		c.write(fh, want)
		pulled := l.Stats().OctetsRead - before.OctetsRead
		if size > 2048 && pulled != uint64(size) {
			t.Errorf("%d octets by RDMA Read, want %d", pulled, size)
		}
		got := make([]byte, size+1)
		if n, eof, _ := c.read(fh, got); !bytes.Equal(got[:n], want) || !eof {
			t.Errorf("%d octets came back as %d different ones", size, n)
		}
	}
}
