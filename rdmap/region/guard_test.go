package region_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// plainBytes gives Bytes another name, so that a struct can embed it beside its method.
type plainBytes = region.Bytes

// guarded is a Memory that records what is done to it.
type guarded struct {
	plainBytes
	calls []string
	fail  error
}

var _ region.Guarded = (*guarded)(nil)

func (g *guarded) Store(off int, p []byte) error {
	g.calls = append(g.calls, "store")
	copy(g.plainBytes[off:], p)
	return g.fail
}

func (g *guarded) Load(p []byte, off int) error {
	g.calls = append(g.calls, "load")
	copy(p, g.plainBytes[off:])
	return g.fail
}

func (g *guarded) Guard(off, n int, f func() error) error {
	g.calls = append(g.calls, "guard")
	if off != 2 || n != 4 {
		return errors.New("wrong range")
	}
	return errors.Join(f(), g.fail)
}

func (g *guarded) Persist(off, n int) error { return g.PersistRanges([]region.Range{{off, n}}) }

func (g *guarded) PersistRanges(rs []region.Range) error {
	g.calls = append(g.calls, "persist")
	return g.fail
}

func (g *guarded) Close() error { return nil }

func view(t *testing.T, mem region.Memory) region.View {
	t.Helper()
	tab := region.NewTable()
	r := must(tab.RegisterMemory(mem, region.Options{Access: region.RemoteRead}))(t)
	v := must(tab.Lookup(r.STag(), 2, 4, region.RemoteRead))(t)
	t.Cleanup(v.Release)
	return v
}

func TestViewCopies(t *testing.T) {
	plain := make(region.Bytes, 8)
	g := &guarded{plainBytes: make(region.Bytes, 8)}
	for _, mem := range []region.Memory{plain, g} {
		v := view(t, mem)
		out := make([]byte, 3)
		ran := false
		err := errors.Join(v.CopyIn([]byte("abcd")), v.CopyOut(out, 0), v.Guard(func() error { ran = true; return nil }))
		if err != nil || string(out) != "abc" || !ran || !bytes.Equal(v.Bytes(), []byte("abcd")) {
			t.Errorf("%T: %v %q %v", mem, err, out, ran)
		}
		for name, f := range map[string]func([]byte) error{"in": v.CopyIn, "out": func(p []byte) error { return v.CopyOut(p, 0) }} {
			if !panics(func() { _ = f(make([]byte, 5)) }) {
				t.Errorf("%T: copy %s past the view does not panic", mem, name)
			}
		}
	}
	if want := []string{"store", "load", "guard"}; !slices.Equal(g.calls, want) {
		t.Errorf("calls %v, want %v", g.calls, want)
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// single can persist only one range at a time.
type single struct {
	plainBytes
	got []region.Range
}

func (s *single) Persist(off, n int) error {
	if off == 9 {
		return region.ErrRegionLost
	}
	s.got = append(s.got, region.Range{off, n})
	return nil
}

func TestPersistRanges(t *testing.T) {
	rs := []region.Range{{0, 1}, {3, 2}, {9, 1}, {5, 5}}
	s := new(single)
	if err := region.PersistRanges(s, rs); !errors.Is(err, region.ErrRegionLost) || !slices.Equal(s.got, rs[:2]) {
		t.Errorf("one by one: %v %v", err, s.got)
	}
	if err := region.PersistRanges(s, rs[:2]); err != nil {
		t.Error(err)
	}
	g := new(guarded)
	if err := region.PersistRanges(g, rs); err != nil || !slices.Equal(g.calls, []string{"persist"}) {
		t.Errorf("at once: %v %v", err, g.calls)
	}
	if err := region.PersistRanges(make(region.Bytes, 1), rs); !errors.Is(err, region.ErrNotPersistent) {
		t.Error(err)
	}
}

func TestCopyInAllocates(t *testing.T) {
	v := view(t, make(region.Bytes, 8))
	p := []byte("abcd")
	if n := testing.AllocsPerRun(100, func() { _ = v.CopyIn(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// watched is memory that has failed when its channel is closed.
type watched struct {
	plainBytes
	failed chan struct{}
}

var _ region.Watched = (*watched)(nil)

func (w *watched) Failed() <-chan struct{} { return w.failed }
func (w *watched) Err() error              { return nil }

// Every registration of a memory that has failed is invalid, in all domains and at once. Present users are waited
// for as usual.
func TestFailedMemory(t *testing.T) {
	w := &watched{plainBytes: make(region.Bytes, 8), failed: make(chan struct{})}
	d := region.NewDomain()
	here, there := d.NewTable(), region.NewTable()
	a, _ := here.RegisterMemory(w, region.Options{Access: region.RemoteRead | region.RemoteInvalidate})
	b, _ := there.RegisterMemory(w, region.Options{Access: region.RemoteRead})
	c, _ := d.RegisterShared(w, region.Options{Access: region.RemoteRead})
	v, err := here.Lookup(a.STag(), 0, 8, region.RemoteRead)
	if err != nil || !a.Valid() || !b.Valid() || !c.Valid() {
		t.Fatal("invalid before it has failed", err)
	}
	close(w.failed)
	for i, tt := range []struct {
		tab *region.Table
		reg region.Region
	}{{here, a}, {there, b}, {here, c}} {
		if _, err := tt.tab.Lookup(tt.reg.STag(), 0, 1, region.RemoteRead); !errors.Is(err, region.ErrInvalidSTag) || tt.reg.Valid() {
			t.Errorf("%d: %v, valid: %v", i, err, tt.reg.Valid())
		}
	}
	if err := here.RemoteInvalidate(a.STag()); !errors.Is(err, region.ErrInvalidSTag) {
		t.Error("remote invalidate:", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Invalidate(over); !errors.Is(err, region.ErrPinned) {
		t.Error("a view is still pinned:", err)
	}
	v.Release()
	if err := errors.Join(a.Invalidate(t.Context()), b.Invalidate(t.Context()), c.Invalidate(t.Context())); err != nil || d.Live()+there.Live() != 0 {
		t.Error(err, d.Live(), there.Live())
	}
}

// A registration does not inherit the settings of the one before in its entry.
func TestRegistrationForgets(t *testing.T) {
	tab := region.NewTable()
	m := &watched{plainBytes: make(region.Bytes, 8), failed: make(chan struct{})}
	r, _ := tab.RegisterMemory(m, region.Options{Access: region.RemoteWrite})
	noErr(t, r.Invalidate(t.Context()))
	close(m.failed)
	r, _ = tab.RegisterMemory(make(region.Bytes, 8), region.Options{Access: region.RemoteWrite})
	v, err := tab.Lookup(r.STag(), 2, 4, region.RemoteWrite)
	if err != nil || v.Guarded() {
		t.Fatal(err)
	}
	v.Release()
}
