package region_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

// modelRegion is what the slow model knows about one registration.
type modelRegion struct {
	r     region.Region
	owner int // table, 2: shared
	base  uint64
	size  uint64
	acc   region.Access
	valid bool
	views []region.View
}

// legal states the rules of Lookup octet by octet.
func (m *modelRegion) legal(table int, to uint64, n uint32, need region.Access) error {
	switch {
	case !m.valid:
		return region.ErrInvalidSTag
	case m.owner != 2 && m.owner != table:
		return region.ErrNotAssociated
	case need&^m.acc != 0:
		return region.ErrAccess
	}
	for i := range uint64(n) {
		if to+i < to {
			return region.ErrWrap
		}
	}
	for i := range uint64(n) {
		if at := to + i; at < m.base || at-m.base >= m.size {
			return region.ErrBounds
		}
	}
	if n == 0 && (to < m.base || to-m.base > m.size) {
		return region.ErrBounds
	}
	return nil
}

type modelRun struct {
	t    *testing.T
	d    *region.Domain
	tabs [2]*region.Table
	all  []*modelRegion
	ops  []byte
}

func (m *modelRun) next() int {
	if len(m.ops) == 0 {
		return 0
	}
	b := m.ops[0]
	m.ops = m.ops[1:]
	return int(b)
}

// number returns a value near the limits at which something can go wrong.
func (m *modelRun) number() uint64 {
	v := uint64(m.next())
	switch v >> 6 {
	case 1:
		return v&63 + 1<<32
	case 2:
		return math.MaxUint64 - v&63
	}
	return v & 63
}

// FuzzTable runs operations, each one octet and its arguments, on a Domain with two Tables and on the model.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 3, 1, 0, 0, 0, 10, 1, 3, 0, 2, 0})
	f.Add([]byte{0, 2, 200, 20, 255, 0, 1, 0, 8, 1, 1, 1, 1, 0, 0, 4, 1, 4, 2, 0, 3, 0, 2, 1})
	f.Add([]byte{0, 0, 0, 63, 64, 1, 0, 0, 0, 5, 64, 4, 0, 0, 1, 0, 0, 0, 5, 64, 3, 0, 2, 0, 2, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := &modelRun{t: t, d: region.NewDomain(), ops: ops[:min(len(ops), 4000)]}
		m.tabs = [2]*region.Table{m.d.NewTable(), m.d.NewTable()}
		for len(m.ops) > 0 {
			m.step()
			m.check()
		}
	})
}

func (m *modelRun) step() {
	op := m.next()
	if op%5 == 0 {
		m.register()
		return
	}
	if len(m.all) == 0 {
		return
	}
	x := m.all[m.next()%len(m.all)]
	switch op % 5 {
	case 1:
		m.lookup(x)
	case 2:
		if k := len(x.views); k > 0 {
			x.views[k-1].Release()
			x.views = x.views[:k-1]
		}
	case 3:
		if got := x.r.Revoke(); got != x.valid {
			m.t.Fatalf("Revoke = %v, want %v", got, x.valid)
		}
		x.valid = false
	case 4:
		m.remote(x)
	}
}

func (m *modelRun) register() {
	x := &modelRegion{owner: m.next() % 3, base: m.number(), size: m.number() & 63, valid: true}
	x.acc = region.Access(m.next()) & anyAccess
	mem, o := make(region.Bytes, x.size), region.Options{Access: x.acc, Base: x.base}
	var err error
	if x.owner == 2 {
		x.r, err = m.d.RegisterShared(mem, o)
	} else {
		x.r, err = m.tabs[x.owner].RegisterMemory(mem, o)
	}
	if fits := x.base+x.size >= x.base; (err == nil) != fits {
		m.t.Fatalf("base %#x, %d octets: %v", x.base, x.size, err)
	}
	if err == nil {
		m.all = append(m.all, x)
	}
}

func (m *modelRun) lookup(x *modelRegion) {
	table, to, n, need := m.next()%2, m.number(), uint32(m.next()), region.Access(m.next())
	want := x.legal(table, to, n, need)
	v, err := m.tabs[table].Lookup(x.r.STag(), to, n, need)
	if !errors.Is(err, want) {
		m.t.Fatalf("Lookup(%#x, %d, %v) by %d of %+v: %v, want %v", to, n, need, table, x, err, want)
	}
	if err == nil {
		if uint64(v.Offset()) != to-x.base || len(v.Bytes()) != int(n) {
			m.t.Fatalf("%d octets at %d", len(v.Bytes()), v.Offset())
		}
		x.views = append(x.views, v)
	}
}

func (m *modelRun) remote(x *modelRegion) {
	table := m.next() % 2
	var want error
	switch {
	case !x.valid:
		want = region.ErrInvalidSTag
	case x.owner != table:
		want = region.ErrNotAssociated
	case x.acc&region.RemoteInvalidate == 0:
		want = region.ErrAccess
	default:
		x.valid = false
	}
	if err := m.tabs[table].RemoteInvalidate(x.r.STag()); !errors.Is(err, want) {
		m.t.Fatalf("RemoteInvalidate: %v, want %v", err, want)
	}
}

func (m *modelRun) check() {
	live, pinned := 0, 0
	for _, x := range m.all {
		if x.r.Valid() != x.valid {
			m.t.Fatalf("%v: valid %v, want %v", x.r.STag(), !x.valid, x.valid)
		}
		switch {
		case x.valid:
			live++
		case len(x.views) > 0:
			pinned++
		}
	}
	if m.d.Live() != live+pinned || m.d.Pinned() != pinned {
		m.t.Fatalf("%d live, %d pinned, want %d and %d", m.d.Live(), m.d.Pinned(), live+pinned, pinned)
	}
}

// The same on random operations.
func TestTableModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		ops := make([]byte, 400)
		for i := range ops {
			ops[i] = byte(rnd.Uint32())
		}
		m := &modelRun{t: t, d: region.NewDomain(), ops: ops}
		m.tabs = [2]*region.Table{m.d.NewTable(), m.d.NewTable()}
		for len(m.ops) > 0 {
			m.step()
			m.check()
		}
	}
}
