package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
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
						copied, err := c.ReadTo(t.Context(), n, dst, func(k int) { told.Add(int64(k)) })
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
		if copied, err := c.ReadTo(t.Context(), n, got, nil); err != nil || copied != int64(tt.real) {
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
	must(c.ReadTo(t.Context(), n, w, nil))(t)
	if !bytes.Equal(out.Bytes(), data) {
		t.Error("content differs")
	}
	bad := errors.New("pipe closed")
	broken := nfsclient.NewOrderedWriter(t.Context(), failWriter{bad}, 0)
	defer broken.Close()
	if _, err := c.ReadTo(t.Context(), n, broken, nil); !errors.Is(err, bad) {
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
		must(c.ReadTo(t.Context(), n, make(nfsclient.Memory, 1000), nil))(t)
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
					done, err := c.WriteFrom(t.Context(), n, src, hint, func(k int) { told.Add(int64(k)) })
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
			if done, err := c.WriteFrom(t.Context(), n, src, -1, nil); err != nil || done != int64(len(data)) {
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
	if done, err := c.WriteFrom(t.Context(), n, data, 950, nil); err != nil || done != 950 {
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
	if err != nil {
		t.Fatal(err)
	}
	f.hook = func(p nfs3.Proc, nth int) nfs3.Status {
		if p == nfs3.ProcWrite && nth == 7 {
			return nfs3.ErrNoSpc
		}
		return nfs3.OK
	}
	_, err = c.WriteFrom(t.Context(), n, testData(1000), 1000, nil)
	if !isStatus(err, nfs3.ErrNoSpc) {
		t.Errorf("got %v, want NOSPC", err)
	}
	bad := errors.New("disk torn")
	if _, err := c.WriteFrom(t.Context(), n, badSource{bad}, 1000, nil); !errors.Is(err, bad) {
		t.Errorf("got %v, want the source's error", err)
	}
	f.hook, f.maxIO = nil, 0
	if _, err := c.WriteFrom(t.Context(), n, testData(10), 10, nil); !errors.Is(err, nfsclient.ErrNoProgress) {
		t.Errorf("got %v, want ErrNoProgress", err)
	}
	if _, err := c.ReadTo(t.Context(), &nfsclient.Node{FH: n.FH, Attr: nfs3.Attr{Size: 5}}, make(nfsclient.Memory, 5), nil); err == nil && len(f.data("a")) > 0 {
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
