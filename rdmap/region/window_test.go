package region_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// openWindow returns a Window of 64 octets.
func openWindow(t testing.TB, tab *region.Table) region.Window {
	t.Helper()
	w := must(tab.Window(make([]byte, 64)))(t)
	return w
}

// TestWindow opens a window again and again: each opening has its own bounds and rights, and the STags of earlier
// openings are invalid.
func TestWindow(t *testing.T) {
	tab := region.NewTable()
	w := openWindow(t, tab)
	old := map[region.STag]bool{}
	for i := range 255 {
		access, other := region.RemoteRead, region.RemoteWrite
		if i%2 == 1 {
			access, other = other, access
		}
		r := must(w.Open(i%32, 32, access))(t)
		if old[r.STag()] || r.STag() == 0 {
			t.Fatalf("opening %d: STag %v again", i, r.STag())
		}
		for stag := range old {
			if err := try(tab, stag, 0, 1, access); !errors.Is(err, region.ErrInvalidSTag) {
				t.Fatalf("opening %d: an earlier STag: %v", i, err)
			}
		}
		old[r.STag()] = true
		for _, c := range []struct {
			to   uint64
			n    uint32
			need region.Access
			want error
		}{{0, 32, access, nil}, {1, 32, access, region.ErrBounds}, {0, 32, other, region.ErrAccess}} {
			if err := try(tab, r.STag(), c.to, c.n, c.need); !errors.Is(err, c.want) {
				t.Fatalf("opening %d, %d octets at %d: %v, want %v", i, c.n, c.to, err, c.want)
			}
		}
		if _, err := w.Open(0, 1, region.RemoteRead); !errors.Is(err, region.ErrOpen) {
			t.Fatalf("opened twice: %v", err)
		}
		if err := r.Invalidate(t.Context()); err != nil || r.Valid() {
			t.Fatalf("%v", err)
		}
		if err := try(tab, r.STag(), 0, 1, access); !errors.Is(err, region.ErrInvalidSTag) {
			t.Fatalf("closed: %v", err)
		}
	}
	if n := tab.Live(); n != 1 {
		t.Errorf("%d registrations, want one", n)
	}
	for range 2 {
		if err := w.Close(); err != nil || tab.Live() != 0 {
			t.Errorf("%v, %d registrations", err, tab.Live())
		}
	}
}

// TestWindowMisuse: misuse is refused, and a window whose memory is still in use cannot be opened again.
func TestWindowMisuse(t *testing.T) {
	tab := region.NewTable()
	w := openWindow(t, tab)
	for _, c := range []struct {
		off, n int
		access region.Access
		want   error
	}{{-1, 1, region.RemoteRead, region.ErrBounds}, {0, 65, region.RemoteRead, region.ErrBounds}, {65, 0, region.RemoteRead, region.ErrBounds}, {1, -1, region.RemoteRead, region.ErrBounds}, {0, 1, 1 << 15, region.ErrRights}} {
		if _, err := w.Open(c.off, c.n, c.access); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r := must(w.Open(0, 64, region.RemoteWrite|region.RemoteInvalidate))(t)
	v := must(tab.Lookup(r.STag(), 0, 64, region.RemoteWrite))(t)
	noErr(t, tab.RemoteInvalidate(r.STag()))
	if err := r.Invalidate(ended()); !errors.Is(err, region.ErrPinned) {
		t.Errorf("%v", err)
	}
	if _, err := w.Open(0, 1, region.RemoteRead); !errors.Is(err, region.ErrOpen) {
		t.Errorf("opened while the engine writes: %v", err)
	}
	if err := w.Close(); !errors.Is(err, region.ErrOpen) {
		t.Errorf("closed while the engine writes: %v", err)
	}
	v.Release()
	if err := r.Invalidate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := w.Open(0, 1, region.RemoteRead); err != nil {
		t.Error(err)
	}
	other := openWindow(t, tab)
	if err := tab.Close(t.Context()); err != nil || tab.Live() != 0 {
		t.Errorf("%v, %d registrations left", err, tab.Live())
	}
	for _, w := range []region.Window{w, other, {}} {
		if _, err := w.Open(0, 1, region.RemoteRead); !errors.Is(err, region.ErrClosed) {
			t.Errorf("after the end of the stream: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := tab.Window(nil); !errors.Is(err, region.ErrClosed) {
		t.Error(err)
	}
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestWindowRace: while a window is opened again and again, written by its owner between openings, and its table is
// closed at the end, another goroutine looks up every STag that the window ever had. The race detector notices any
// access to memory that is not lent.
func TestWindowRace(t *testing.T) {
	tab := region.NewTable()
	mem := make([]byte, 64)
	w := must(tab.Window(mem))(t)
	first := must(w.Open(0, 64, region.RemoteWrite))(t)
	base := first.STag() &^ 0xff
	noErr(t, first.Invalidate(t.Context()))
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for key := region.STag(0); ; key = (key + 1) & 0xff {
			select {
			case <-done:
				return
			default:
			}
			if v, err := tab.Lookup(base|key, 0, 8, region.RemoteWrite); err == nil {
				_ = v.CopyIn([]byte{byte(key)})
				v.Release()
			}
		}
	})
	for i := range 1000 {
		mem[0] = byte(i)
		r := must(w.Open(8*(1+i%7), 8, region.RemoteWrite))(t)
		mem[0] = 0 // not in the opening
		noErr(t, r.Invalidate(t.Context()))
		clear(mem)
	}
	if err := tab.Close(t.Context()); err != nil {
		t.Error(err)
	}
	clear(mem)
	close(done)
	wg.Wait()
	if n := tab.Live(); n != 0 {
		t.Errorf("%d registrations", n)
	}
}

// TestWindowVerify: failed comparisons through a Window count, and a new opening does not forget
// them.
func TestWindowVerify(t *testing.T) {
	tab := region.NewTable()
	w := openWindow(t, tab)
	for opening := range 2 {
		r := must(w.Open(0, 64, region.Verify))(t)
		v := must(tab.Lookup(r.STag(), 0, 64, region.Verify))(t)
		if may := v.MayGuess(tab); may != (opening == 0) {
			t.Errorf("opening %d: MayGuess is %v before its first guess", opening, may)
		}
		for range 2 * 16 { // one more than once suffices
			v.Guessed(tab)
		}
		v.Release()
		noErr(t, r.Invalidate(t.Context()))
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
