package pmemtest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Octets that were persisted survive, and those that nobody touched are zeros.
func testDurable(t *testing.T, g Target) {
	m := g.Create(t, 8192, nil)
	store(t, m, 10, []byte("persisted"))
	persist(t, m, 10, 9)
	store(t, m, 5000, []byte("stored"))
	m = g.Crash(t, m)
	want := make([]byte, 8192)
	copy(want[10:], "persisted")
	got := bytes.Clone(m.Bytes())
	if g.Exact && !bytes.Equal(got, want) {
		t.Error("octets that nobody persisted survived")
	}
	copy(got[5000:], make([]byte, 6))
	if !bytes.Equal(got, want) {
		t.Error("persisted octets are lost, or others damaged")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// oracle knows what each octet may be after a crash: what it was when it was last persisted, or
// anything stored there since then.
type oracle struct {
	may   [][]byte // by octet; the first one is durable
	now   []byte
	exact bool
}

func newOracle(size int, exact bool) *oracle {
	o := &oracle{exact: exact}
	o.restart(make([]byte, size))
	return o
}

func (o *oracle) restart(image []byte) {
	o.now = bytes.Clone(image)
	o.may = make([][]byte, len(image))
	for i, b := range image {
		o.may[i] = []byte{b}
	}
}

func (o *oracle) store(off int, p []byte) {
	copy(o.now[off:], p)
	for i, b := range p {
		o.may[off+i] = append(o.may[off+i], b)
	}
}

func (o *oracle) persist(off, n int) {
	for i := off; i < off+n; i++ {
		o.may[i] = append(o.may[i][:0], o.now[i])
	}
}

// check returns the offset of the first octet of image that is impossible, or -1.
func (o *oracle) check(image []byte) int {
	for i, b := range image {
		may := o.may[i]
		if o.exact {
			may = may[:1]
		}
		if bytes.IndexByte(may, b) < 0 {
			return i
		}
	}
	return -1
}

// Random stores, persists and crashes leave what the oracle allows.
func testOracle(t *testing.T, g Target) {
	const size, crashes, steps = 1000, 4, 25
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m, o := g.Create(t, size, nil), newOracle(size, g.Exact)
	for range crashes {
		for range steps {
			o.step(t, r, m)
		}
		m = g.Crash(t, m)
		if i := o.check(m.Bytes()); i >= 0 {
			t.Fatalf("octet %d is %#x, may be % x", i, m.Bytes()[i], o.may[i])
		}
		o.restart(m.Bytes())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func (o *oracle) step(t *testing.T, r *rand.Rand, m region.Memory) {
	t.Helper()
	off := r.IntN(len(o.now))
	n := r.IntN(min(200, len(o.now)-off) + 1)
	if r.IntN(3) == 0 {
		persist(t, m, off, n)
		o.persist(off, n)
		return
	}
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(1 + r.IntN(255))
	}
	store(t, m, off, p)
	o.store(off, p)
	if !bytes.Equal(m.Bytes(), o.now) {
		t.Fatalf("store of %d octets at %d: Bytes does not have what was stored", n, off)
	}
}
