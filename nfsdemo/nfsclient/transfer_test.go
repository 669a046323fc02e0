package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
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

// small blocks make many calls of little data.
var small = &nfsclient.Config{MaxBlock: 100, InFlight: 3, CommitEvery: 1000}

// plain hides that a Memory lends.
type plain struct{ m nfsclient.Memory }

func (p plain) ReadAt(b []byte, off int64) (int, error)  { return p.m.ReadAt(b, off) }
func (p plain) WriteAt(b []byte, off int64) (int, error) { return p.m.WriteAt(b, off) }

var sizes = []int{0, 1, 99, 100, 101, 250, 300, 999, 1000, 1001, 3456}

func TestReadTo(t *testing.T) {
	for _, size := range sizes {
		for _, maxIO := range []int{1 << 20, 33} {
			for _, place := range []bool{true, false} {
				for _, lend := range []bool{true, false} {
					t.Run(fmt.Sprintf("%d by %d place=%v lend=%v", size, maxIO, place, lend), func(t *testing.T) {
						f := newFake(t)
						data := testData(size)
						f.put("a", nfs3.TypeReg, data)
						f.maxIO, f.place = maxIO, place
						c := f.client(t, small)
						n := must(c.Lookup(t.Context(), "/export/a"))(t)
						got := make(nfsclient.Memory, size)
						var dst io.WriterAt = got
						if !lend {
							dst = plain{got}
						}
						var told atomic.Int64
						copied, err := c.ReadTo(t.Context(), n, dst, 0, func(k int) { told.Add(int64(k)) })
						if err != nil || copied != int64(size) || told.Load() != int64(size) {
							t.Fatalf("ReadTo = %d, %v, progress %d, want %d", copied, err, told.Load(), size)
						}
						if !bytes.Equal(got, data) {
							t.Error("content differs")
						}
						if want := max(1, (size+99)/100); maxIO > 100 && f.count(nfs3.ProcRead) != want {
							t.Errorf("%d READs, want %d", f.count(nfs3.ProcRead), want)
						}
					})
				}
			}
		}
	}
}

func TestReadToFollowsTheRealSize(t *testing.T) {
	for _, tt := range []struct{ said, real int }{{100, 1000}, {1000, 100}, {0, 350}, {350, 0}} {
		f := newFake(t)
		data := testData(tt.real)
		f.put("a", nfs3.TypeReg, data)
		c := f.client(t, small)
		n := &nfsclient.Node{Path: "/export/a", FH: f.handle("a"), Attr: nfs3.Attr{Type: nfs3.TypeReg, Size: uint64(tt.said)}}
		got := make(nfsclient.Memory, tt.real)
		if copied, err := c.ReadTo(t.Context(), n, got, 0, nil); err != nil || copied != int64(tt.real) {
			t.Errorf("size %d, said %d: ReadTo = %d, %v", tt.real, tt.said, copied, err)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("size %d, said %d: content differs", tt.real, tt.said)
		}
	}
}

func TestReadToOrdered(t *testing.T) {
	f := newFake(t)
	data := testData(2345)
	f.put("a", nfs3.TypeReg, data)
	c := f.client(t, small)
	n := must(c.Lookup(t.Context(), "/export/a"))(t)
	var out bytes.Buffer
	w := nfsclient.NewOrderedWriter(t.Context(), &out, 0)
	defer w.Close()
	must(c.ReadTo(t.Context(), n, w, 0, nil))(t)
	if !bytes.Equal(out.Bytes(), data) {
		t.Error("content differs")
	}
	bad := errors.New("pipe closed")
	broken := nfsclient.NewOrderedWriter(t.Context(), failWriter{bad}, 0)
	defer broken.Close()
	if _, err := c.ReadTo(t.Context(), n, broken, 0, nil); !errors.Is(err, bad) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

func TestReadsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.put("a", nfs3.TypeReg, testData(1000))
		c := f.client(t, small)
		n := must(c.Lookup(t.Context(), "/export/a"))(t)
		f.gate = make(chan struct{})
		go func() {
			synctest.Wait() // all that can start has started
			close(f.gate)
		}()
		must(c.ReadTo(t.Context(), n, make(nfsclient.Memory, 1000), 0, nil))(t)
		if f.most != 3 {
			t.Errorf("%d READs were in flight at most, want 3", f.most)
		}
	})
}

func TestWriteFrom(t *testing.T) {
	for _, size := range sizes {
		for _, maxIO := range []int{1 << 20, 33} {
			for _, kind := range []string{"memory", "file", "stream", "hint too small", "hint too large"} {
				t.Run(fmt.Sprintf("%d by %d from %s", size, maxIO, kind), func(t *testing.T) {
					f := newFake(t)
					f.maxIO = maxIO
					c := f.client(t, small)
					n := must(c.Create(t.Context(), c.Root(), "a", 0o644, true))(t)
					data := testData(size)
					var src io.ReaderAt = data
					hint := int64(size)
					switch kind {
					case "file":
						src = plain{data}
					case "stream":
						src, hint = nfsclient.NewWindow(bytes.NewReader(data), 400), -1
					case "hint too small":
						hint /= 2
					case "hint too large":
						hint = hint*2 + 1
					}
					var told atomic.Int64
					done, err := c.WriteFrom(t.Context(), n, src, 0, hint, func(k int) { told.Add(int64(k)) })
					if err != nil || done != int64(size) || told.Load() != int64(size) {
						t.Fatalf("WriteFrom = %d, %v, progress %d, want %d", done, err, told.Load(), size)
					}
					if !bytes.Equal(f.data("a"), data) {
						t.Error("content differs")
					}
					if len(f.pending) != 0 {
						t.Error("something was not committed")
					}
					if commits := f.count(nfs3.ProcCommit); hint == int64(size) && size <= 100 && commits != 0 {
						t.Errorf("%d COMMITs for a file of one block, want FILE_SYNC", commits)
					}
				})
			}
		}
	}
}

// TestWriteFromServerLosesData reboots the server at every call in turn.
func TestWriteFromServerLosesData(t *testing.T) {
	data := testData(1500)
	for nth := 1; nth <= 17; nth++ {
		for _, proc := range []nfs3.Proc{nfs3.ProcWrite, nfs3.ProcCommit} {
			f := newFake(t)
			c := f.client(t, small)
			n := must(c.Create(t.Context(), c.Root(), "a", 0o644, true))(t)
			f.hook = func(p nfs3.Proc, k int) nfs3.Status {
				if p == proc && k == nth {
					f.reboot()
				}
				return nfs3.OK
			}
			src := nfsclient.NewWindow(bytes.NewReader(data), 700)
			if done, err := c.WriteFrom(t.Context(), n, src, 0, -1, nil); err != nil || done != int64(len(data)) {
				t.Fatalf("reboot at %v %d: WriteFrom = %d, %v", proc, nth, done, err)
			}
			f.reboot() // what is durable survives another one
			if !bytes.Equal(f.data("a"), data) {
				t.Errorf("reboot at %v %d: data were lost", proc, nth)
			}
		}
	}
}

func TestWriteFromServerLosesDataForEver(t *testing.T) {
	f := newFake(t)
	c := f.client(t, small)
	n := must(c.Create(t.Context(), c.Root(), "a", 0o644, true))(t)
	f.hook = func(p nfs3.Proc, _ int) nfs3.Status {
		if p == nfs3.ProcCommit {
			f.reboot()
		}
		return nfs3.OK
	}
	data := testData(950)
	if done, err := c.WriteFrom(t.Context(), n, data, 0, 950, nil); err != nil || done != 950 {
		t.Fatalf("WriteFrom = %d, %v, want the last try to be FILE_SYNC", done, err)
	}
	f.reboot()
	if !bytes.Equal(f.data("a"), data) {
		t.Error("data were lost")
	}
	const tries = 4 // the last is FILE_SYNC
	if got := f.count(nfs3.ProcCommit); got != tries-1 {
		t.Errorf("%d COMMITs, want %d", got, tries-1)
	}
}

func TestWriteFromErrors(t *testing.T) {
	f := newFake(t)
	c := f.client(t, small)
	n, err := c.Create(t.Context(), c.Root(), "a", 0o644, true)
	noErr(t, err)
	f.hook = func(p nfs3.Proc, nth int) nfs3.Status {
		if p == nfs3.ProcWrite && nth == 7 {
			return nfs3.ErrNoSpc
		}
		return nfs3.OK
	}
	_, err = c.WriteFrom(t.Context(), n, testData(1000), 0, 1000, nil)
	if !isStatus(err, nfs3.ErrNoSpc) {
		t.Errorf("got %v, want NOSPC", err)
	}
	bad := errors.New("disk torn")
	if _, err := c.WriteFrom(t.Context(), n, badSource{bad}, 0, 1000, nil); !errors.Is(err, bad) {
		t.Errorf("got %v, want the source's error", err)
	}
	f.hook, f.maxIO = nil, 0
	if _, err := c.WriteFrom(t.Context(), n, testData(10), 0, 10, nil); !errors.Is(err, nfsclient.ErrNoProgress) {
		t.Errorf("got %v, want ErrNoProgress", err)
	}
	if _, err := c.ReadTo(t.Context(), &nfsclient.Node{FH: n.FH, Attr: nfs3.Attr{Size: 5}}, make(nfsclient.Memory, 5), 0, nil); err == nil && len(f.data("a")) > 0 {
		t.Error("a READ of nothing without eof must be an error")
	}
}

type badSource struct{ err error }

func (b badSource) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func TestJukebox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		c := f.client(t, &nfsclient.Config{Jukebox: 2 * time.Second})
		busy := 4
		f.hook = func(nfs3.Proc, int) nfs3.Status {
			if busy > 0 {
				busy--
				return nfs3.ErrJukebox
			}
			return nfs3.OK
		}
		start := time.Now()
		noErr(t, c.Refresh(t.Context(), c.Root()))
		if d := time.Since(start); d != 750*time.Millisecond {
			t.Errorf("took %v, want 50+100+200+400 ms", d)
		}
		busy = 1000
		if err := c.Refresh(t.Context(), c.Root()); !isStatus(err, nfs3.ErrJukebox) {
			t.Errorf("got %v, want JUKEBOX in the end", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		if err := c.Refresh(ctx, c.Root()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

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
		if n, err = f.c.WriteFrom(ctx, f.n, bytes.NewReader(p), 0, int64(len(p)), nil); n != int64(len(p)) {
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
	n, err := f.c.ReadTo(ctx, f.n, got, 0, nil)
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
	noErr(t, err)
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

// failWriter fails every Write.
type failWriter struct{ err error }

func (f failWriter) Write([]byte) (int, error) { return 0, f.err }

func TestOrderedWriterCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := nfsclient.NewOrderedWriter(ctx, &bytes.Buffer{}, 0)
		defer o.Close()
		done := make(chan error)
		go func() {
			_, err := o.WriteAt([]byte("b"), 1)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

func testData(n int) nfsclient.Memory {
	m := make(nfsclient.Memory, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(m)
	return m
}

func TestWindow(t *testing.T) {
	data := testData(25)
	w := nfsclient.NewWindow(iotest.OneByteReader(bytes.NewReader(data)), 10)
	buf := make([]byte, 5)
	for _, tt := range []struct {
		name    string
		off     int64
		n       int
		release int64
		want    int
		err     error
	}{
		{"ahead of the first", 5, 5, 0, 5, nil},
		{"again", 5, 5, 0, 5, nil},
		{"first", 0, 5, 0, 5, nil},
		{"beyond the window", 8, 5, 0, 0, io.ErrShortBuffer},
		{"after a release", 10, 5, 7, 5, nil},
		{"released", 6, 1, 7, 0, io.ErrShortBuffer},
		{"last", 20, 5, 20, 5, nil},
		{"end", 25, 5, 20, 0, io.EOF},
		{"over the end", 23, 5, 20, 2, io.EOF},
	} {
		w.Release(tt.release)
		n, err := w.ReadAt(buf[:tt.n], tt.off)
		if n != tt.want || !errors.Is(err, tt.err) {
			t.Fatalf("%s: ReadAt = %d, %v, want %d, %v", tt.name, n, err, tt.want, tt.err)
		}
		if !bytes.Equal(buf[:n], data[tt.off:tt.off+int64(n)]) {
			t.Errorf("%s: got %x", tt.name, buf[:n])
		}
	}
}

func TestWindowErrors(t *testing.T) {
	bad := errors.New("tape torn")
	w := nfsclient.NewWindow(io.MultiReader(bytes.NewReader([]byte("abc")), iotest.ErrReader(bad)), 10)
	buf := make([]byte, 5)
	if n, err := w.ReadAt(buf, 0); n != 3 || !errors.Is(err, bad) {
		t.Errorf("ReadAt = %d, %v, want 3 and the reader's error", n, err)
	}
	w = nfsclient.NewWindow(stuck{}, 10)
	if n, err := w.ReadAt(buf, 0); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("ReadAt = %d, %v, want io.ErrNoProgress", n, err)
	}
}

// stuck reads nothing, forever.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestMemory(t *testing.T) {
	m := make(nfsclient.Memory, 5)
	if n, err := m.WriteAt([]byte("abcdef"), 0); n != 5 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("WriteAt past the end = %d, %v", n, err)
	}
	if b := m.Lend(3, 9); string(b) != "de" || cap(b) != 2 {
		t.Errorf("Lend = %q, cap %d", b, cap(b))
	}
	if b := m.Lend(5, 1); b != nil {
		t.Errorf("Lend at the end = %q", b)
	}
	if n, err := m.ReadAt(make([]byte, 2), 4); n != 1 || err != io.EOF {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
}
