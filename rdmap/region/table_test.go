package region_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

func register(t testing.TB, tab *region.Table, mem []byte, a region.Access) region.Region {
	t.Helper()
	r, err := tab.Register(mem, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func invalidate(t testing.TB, r region.Region) {
	t.Helper()
	if err := r.Invalidate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// try looks up octets and releases them.
func try(tab *region.Table, stag region.STag, to uint64, n uint32, need region.Access) error {
	v, err := tab.Lookup(stag, to, n, need)
	v.Release()
	return err
}

// ADVERSARY 14: all rights against all operations.
func TestRightsMatrix(t *testing.T) {
	tab := region.NewTable()
	for a := region.Access(0); a <= anyAccess; a++ {
		r := register(t, tab, make([]byte, 8), a)
		for need := region.Access(1); need <= anyAccess; need <<= 1 {
			var want error
			if a&need == 0 {
				want = region.ErrAccess
			}
			if err := try(tab, r.STag(), 0, 8, need); !errors.Is(err, want) {
				t.Fatalf("%v for %v: %v", a, need, err)
			}
		}
		if err := try(tab, r.STag(), 0, 8, a); err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		invalidate(t, r)
	}
	if n := tab.Live(); n != 0 {
		t.Errorf("%d live", n)
	}
}

// ADVERSARY 14: bounds exact to the octet, TO near 2^64.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		base uint64
		size int
		to   uint64
		n    uint32
		want error
	}{
		{0, 10, 0, 10, nil},
		{0, 10, 9, 1, nil},
		{0, 10, 10, 0, nil},
		{0, 10, 11, 0, region.ErrBounds},
		{0, 10, 0, 11, region.ErrBounds},
		{0, 10, 9, 2, region.ErrBounds},
		{0, 10, 10, 1, region.ErrBounds},
		{0, 10, 0, math.MaxUint32, region.ErrBounds},
		{0, 10, math.MaxUint64, 1, region.ErrBounds},
		{0, 10, math.MaxUint64, 2, region.ErrWrap},
		{0, 10, math.MaxUint64, math.MaxUint32, region.ErrWrap},
		{0, 10, math.MaxUint64, 0, region.ErrBounds},
		{0, 0, 0, 0, nil},
		{0, 0, 0, 1, region.ErrBounds},
		{100, 10, 100, 10, nil},
		{100, 10, 99, 1, region.ErrBounds},
		{100, 10, 99, 12, region.ErrBounds},
		{100, 10, 0, 1, region.ErrBounds},
		{100, 10, 109, 2, region.ErrBounds},
		{math.MaxUint64 - 10, 10, math.MaxUint64 - 1, 1, nil},
		{math.MaxUint64 - 10, 10, math.MaxUint64 - 1, 2, region.ErrBounds},
		{math.MaxUint64 - 10, 10, math.MaxUint64 - 1, 3, region.ErrWrap},
	} {
		tab := region.NewTable()
		mem := make(region.Bytes, tt.size)
		r, err := tab.RegisterMemory(mem, region.Options{Access: region.RemoteWrite, Base: tt.base})
		if err != nil {
			t.Fatal(err)
		}
		v, err := tab.Lookup(r.STag(), tt.to, tt.n, region.RemoteWrite)
		if !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil && (len(v.Bytes()) != int(tt.n) || cap(v.Bytes()) != int(tt.n) || v.Offset() != int(tt.to-tt.base)) {
			t.Errorf("%+v: %d octets at %d", tt, len(v.Bytes()), v.Offset())
		}
		if err == nil && tt.n > 0 && &v.Bytes()[0] != &mem[v.Offset()] {
			t.Errorf("%+v: other memory", tt)
		}
		v.Release()
	}
}

// Of several faults the first one counts: existence, association, right, wrap, bounds.
func TestOrderOfChecks(t *testing.T) {
	d := region.NewDomain()
	mine, other := d.NewTable(), d.NewTable()
	r := register(t, mine, make([]byte, 8), region.RemoteRead)
	for _, tt := range []struct {
		tab  *region.Table
		stag region.STag
		to   uint64
		need region.Access
		want error
	}{
		{other, r.STag() ^ 1, math.MaxUint64, region.RemoteWrite, region.ErrInvalidSTag},
		{other, r.STag(), math.MaxUint64, region.RemoteWrite, region.ErrNotAssociated},
		{mine, r.STag(), math.MaxUint64, region.RemoteWrite, region.ErrAccess},
		{mine, r.STag(), math.MaxUint64, region.RemoteRead, region.ErrWrap},
		{mine, r.STag(), 7, region.RemoteRead, region.ErrBounds},
		{region.NewTable(), r.STag(), 0, region.RemoteRead, region.ErrInvalidSTag},
		{mine, 0, 0, region.RemoteRead, region.ErrInvalidSTag},
	} {
		if err := try(tt.tab, tt.stag, tt.to, 2, tt.need); !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
	invalidate(t, r) // no refusal left a pin
}

func TestShared(t *testing.T) {
	d := region.NewDomain()
	a, b := d.NewTable(), d.NewTable()
	r, err := d.RegisterShared(make(region.Bytes, 8), region.Options{Access: region.RemoteRead | region.RemoteInvalidate})
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range []*region.Table{a, b} {
		if err := try(tab, r.STag(), 0, 8, region.RemoteRead); err != nil {
			t.Error(err)
		}
		// RFC 5040 Section 8.1: a shared STag cannot be invalidated by a peer.
		if err := tab.RemoteInvalidate(r.STag()); !errors.Is(err, region.ErrNotAssociated) {
			t.Errorf("%v", err)
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := try(a, r.STag(), 0, 8, region.RemoteRead); !errors.Is(err, region.ErrInvalidSTag) {
		t.Errorf("closed table: %v", err)
	}
	if err := try(b, r.STag(), 0, 8, region.RemoteRead); err != nil || !r.Valid() {
		t.Errorf("the other table: %v", err)
	}
	invalidate(t, r)
}

func TestRegisterErrors(t *testing.T) {
	tab := region.NewTable()
	if tab.Domain().Pinned() != 0 {
		t.Error("pinned")
	}
	if _, err := tab.Register(nil, anyAccess+1); !errors.Is(err, region.ErrRights) {
		t.Errorf("%v", err)
	}
	if _, err := tab.RegisterMemory(make(region.Bytes, 8), region.Options{Base: math.MaxUint64 - 7}); !errors.Is(err, region.ErrBase) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := tab.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tab.Register(nil, 0); !errors.Is(err, region.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestZeroRegion(t *testing.T) {
	var r region.Region
	if r.STag() != 0 || r.Valid() || r.Revoke() || r.Invalidate(t.Context()) != nil {
		t.Error("the zero Region is valid")
	}
}

func TestMemory(t *testing.T) {
	b := region.Bytes("octets")
	if err := b.Persist(0, 6); !errors.Is(err, region.ErrNotPersistent) {
		t.Errorf("%v", err)
	}
	if err := b.Close(); err != nil || string(b.Bytes()) != "octets" {
		t.Errorf("%v", err)
	}
	tab := region.NewTable()
	m := &persistent{mem: b}
	r, err := tab.RegisterMemory(m, region.Options{Access: region.FlushPersistent})
	if err != nil {
		t.Fatal(err)
	}
	v, _ := tab.Lookup(r.STag(), 2, 3, region.FlushPersistent)
	if err := v.Memory().Persist(v.Offset(), len(v.Bytes())); err != nil || m.off != 2 || m.n != 3 {
		t.Errorf("%v, %+v", err, m)
	}
	v.Release()
	plain := register(t, tab, b, region.RemoteRead)
	v, _ = tab.Lookup(plain.STag(), 1, 2, region.RemoteRead)
	if got := v.Memory().Bytes(); string(got) != "octets" {
		t.Errorf("%q", got)
	}
	v.Release()
}

type persistent struct {
	mem    region.Bytes
	off, n int
}

func (p *persistent) Bytes() []byte { return p.mem }
func (p *persistent) Close() error  { return nil }

func (p *persistent) Persist(off, n int) error { p.off, p.n = off, n; return nil }

// Revoke is only for registrations of the Table itself.
func TestRevokeBySTag(t *testing.T) {
	d := region.NewDomain()
	a, b := d.NewTable(), d.NewTable()
	own := register(t, a, make([]byte, 8), region.RemoteRead)
	shared, _ := d.RegisterShared(make(region.Bytes, 8), region.Options{Access: region.RemoteRead})
	for _, r := range []region.Region{own, shared} {
		if b.Revoke(r.STag()) || a.Revoke(r.STag()+1) || !r.Valid() {
			t.Errorf("%v revoked by another", r.STag())
		}
	}
	if a.Revoke(shared.STag()) || !a.Revoke(own.STag()) || own.Valid() || a.Revoke(own.STag()) || d.Live() != 1 {
		t.Error("own", own.Valid(), "live", d.Live())
	}
}
