package nfsclient_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
)

// TestMix: files in memory or in a directory, over RDMA or TCP, hold what slices hold that are written, cut and extended in
// the same way, whatever the sizes and however many do so at once.
func TestMix(t *testing.T) {
	t.Parallel()
	rdmaptest.Mix(t, mix)
}

// mixFile is a file and what it should hold.
type mixFile struct {
	t    *testing.T
	c    *nfsclient.Client
	n    *nfsclient.Node
	rnd  *rand.Rand
	want []byte
}

const mixMost = 3 << 20 // octets of a file

// random returns octets, up to n, most often much fewer.
func (f *mixFile) random(n int) []byte {
	b := make([]byte, f.rnd.IntN(1+n>>f.rnd.IntN(20)))
	for i := range b {
		b[i] = byte(f.rnd.Uint32())
	}
	return b
}

// store is what a write does.
func (f *mixFile) store(p []byte, off int) {
	if len(p) == 0 {
		return
	}
	if end := off + len(p); end > len(f.want) {
		f.want = append(f.want, make([]byte, end-len(f.want))...)
	}
	copy(f.want[off:], p)
}

// step does one thing to the file.
func (f *mixFile) step(ctx context.Context) (err error) {
	off := f.rnd.IntN(min(len(f.want)+10_000, mixMost/2))
	switch f.rnd.IntN(8) {
	case 0:
		size := uint64(off)
		f.want = append(f.want, make([]byte, max(0, off-len(f.want)))...)[:off]
		return f.c.SetAttr(ctx, f.n, &nfs3.SetAttr{SetSize: true, Size: size})
	case 1:
		p := f.random(mixMost / 2)
		f.store(p, 0)
		var n int64
		if n, err = f.c.WriteFrom(ctx, f.n, bytes.NewReader(p), int64(len(p)), nil); n != int64(len(p)) {
			f.t.Errorf("%d octets written of %d", n, len(p))
		}
		return err
	case 2:
		_, err = f.c.Commit(ctx, f.n)
		return err
	case 3:
		return f.whole(ctx)
	case 4, 5:
		p := make([]byte, len(f.random(mixMost/2)))
		n, err := f.c.ReadAt(ctx, f.n, p, int64(off))
		if err != nil && len(p) > 0 && off+len(p) <= len(f.want) {
			return err
		}
		if want := f.want[min(off, len(f.want)):min(off+len(p), len(f.want))]; !bytes.Equal(p[:n], want) {
			f.t.Errorf("READ of %d octets at %d of %d differs: %d octets", len(p), off, len(f.want), n)
		}
	default:
		p := f.random(mixMost / 2)
		f.store(p, off)
		_, _, err = f.c.WriteAt(ctx, f.n, p, int64(off), nfs3.StableHow(f.rnd.IntN(3)))
		return err
	}
	return nil
}

// whole reads the file from its beginning to its end.
func (f *mixFile) whole(ctx context.Context) error {
	if err := f.c.Refresh(ctx, f.n); err != nil {
		return err
	}
	got := make(nfsclient.Memory, len(f.want)+f.rnd.IntN(100))
	n, err := f.c.ReadTo(ctx, f.n, got, nil)
	if err == nil && (f.n.Size() != int64(len(f.want)) || !bytes.Equal(got[:n], f.want)) {
		f.t.Errorf("a file of %d octets differs: %d octets, size %d", len(f.want), n, f.n.Size())
	}
	return err
}

func mix(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var files backend.FS = mem.New(nil)
	if rnd.IntN(2) == 0 {
		var err error
		if files, err = dir.New(t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
	}
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: files, Squash: server.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: h, Config: &transport.Config{Reading: transport.Reading{HandlerLimit: time.Duration(rnd.IntN(2)) * time.Millisecond}}}
	l := listen(t)
	scheme, serve := "nfs+rdma", s.Serve
	if rnd.IntN(4) == 0 {
		scheme, serve = "nfs", func(l net.Listener) error { return s.ServeStream(l) }
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	cfg := &nfsclient.Config{InFlight: 1 + rnd.IntN(8), MaxBlock: []int{0, 1 << 20, 70_000, 5000}[rnd.IntN(4)]}
	c := must(dial(t, scheme+"://"+l.Addr().String()+"/export", cfg))(t)
	var wg sync.WaitGroup
	for i := range 4 {
		n := must(c.Create(t.Context(), c.Root(), fmt.Sprint(i), 0o600, false))(t)
		f := &mixFile{t: t, c: c, n: n, rnd: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		wg.Go(func() {
			var err error
			for until := time.Now().Add(rdmaptest.MixTime()); err == nil && !t.Failed() && time.Now().Before(until); {
				err = f.step(t.Context())
				f.want = slices.Clip(f.want)
			}
			if err == nil {
				err = f.whole(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c.Close()
	s.Close()
	<-done
	if err := files.Close(); err != nil {
		t.Error(err)
	}
}
