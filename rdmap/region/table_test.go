package region_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

func register(t testing.TB, tab *region.Table, mem []byte, a region.Access) region.Region {
	t.Helper()
	r := must(tab.Register(mem, a))(t)
	return r
}

func invalidate(t testing.TB, r region.Region) {
	t.Helper()
	noErr(t, r.Invalidate(t.Context()))
}

// try looks up octets and releases them.
func try(tab *region.Table, stag region.STag, to uint64, n uint32, need region.Access) error {
	v, err := tab.Lookup(stag, to, n, need)
	v.Release()
	return err
}

func TestShared(t *testing.T) {
	d := region.NewDomain()
	a, b := d.NewTable(), d.NewTable()
	r, err := d.RegisterShared(make(region.Bytes, 8), region.Options{Access: region.RemoteRead | region.RemoteInvalidate})
	noErr(t, err)
	for _, tab := range []*region.Table{a, b} {
		if err := try(tab, r.STag(), 0, 8, region.RemoteRead); err != nil {
			t.Error(err)
		}
		// RFC 5040 Section 8.1: a shared STag cannot be invalidated by a peer.
		if err := tab.RemoteInvalidate(r.STag()); !errors.Is(err, region.ErrNotAssociated) {
			t.Errorf("%v", err)
		}
	}
	noErr(t, a.Close(t.Context()))
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
		noErr(t, tab.Close(t.Context()))
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
	r := must(tab.RegisterMemory(m, region.Options{Access: region.FlushPersistent}))(t)
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
