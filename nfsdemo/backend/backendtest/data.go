package backendtest

import (
	"bytes"
	"math/rand/v2"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func testData(e *env) {
	f := e.create(e.fs.Root(), "f")
	for _, how := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
		r, err := f.Write([]byte("abc"), 0, how)
		e.ok("Write", err)
		if r.N != 3 || r.Committed < how {
			e.Errorf("%v: %+v", how, r)
		}
	}
	e.write(f, []byte("xyz"), 1<<20)
	if a := e.attr(f); a.Size != 1<<20+3 {
		e.Errorf("size %d", a.Size)
	}
	if got := e.read(f, 6, 0); string(got) != "abc\x00\x00\x00" {
		e.Errorf("content %q", got)
	}
	if got := e.read(f, 100, 1<<20+1); string(got) != "yz" {
		e.Errorf("content %q", got)
	}
	for _, off := range []uint64{1<<20 + 3, 1 << 40, 1 << 63, ^uint64(0)} {
		if got := e.read(f, 10, off); len(got) != 0 {
			e.Errorf("at %d: %q", off, got)
		}
	}
	r, err := f.Write(nil, 1<<30, nfs3.Unstable)
	e.ok("Write of nothing", err)
	if r.N != 0 || e.attr(f).Size != 1<<20+3 {
		e.Errorf("Write of nothing: %+v, size %d", r, e.attr(f).Size)
	}
	for _, off := range []uint64{1<<63 - 1, 1 << 63, ^uint64(0)} {
		_, err := f.Write([]byte("ab"), off, nfs3.Unstable)
		e.want("Write beyond 2^63", err, nfs3.ErrFBig)
	}
}

// testDataModel compares reads, writes and truncations with those of a slice.
func testDataModel(e *env) {
	const seed, size = 7, 200_000
	rng := rand.New(rand.NewPCG(seed, seed))
	f := e.create(e.fs.Root(), "f")
	var model []byte
	for i := range 300 {
		off, n := rng.IntN(size), rng.IntN(40_000)
		switch rng.IntN(5) {
		case 0, 1:
			p := make([]byte, n)
			for j := range p {
				p[j] = byte(rng.Uint32())
			}
			e.write(f, p, uint64(off))
			if n > 0 {
				model = append(model, make([]byte, max(0, off+n-len(model)))...)
				copy(model[off:], p)
			}
		case 2:
			e.ok("truncate", f.SetAttr(&nfs3.SetAttr{SetSize: true, Size: uint64(off)}))
			model = append(model, make([]byte, max(0, off-len(model)))...)[:off]
		default:
			want := model[min(off, len(model)):min(off+n, len(model))]
			if got := e.read(f, n, uint64(off)); !bytes.Equal(got, want) {
				e.Fatalf("seed %d, step %d: %d octets at %d differ", seed, i, n, off)
			}
		}
		if a := e.attr(f); a.Size != uint64(len(model)) {
			e.Fatalf("seed %d, step %d: size %d, want %d", seed, i, a.Size, len(model))
		}
	}
}

func testCommit(e *env) {
	f := e.create(e.fs.Root(), "f")
	r, err := f.Write([]byte("abc"), 0, nfs3.Unstable)
	e.ok("Write", err)
	for _, c := range []struct {
		off uint64
		n   uint32
	}{{0, 0}, {0, 3}, {1, 1}, {1 << 63, 0}, {^uint64(0), 7}} {
		v, err := f.Commit(c.off, c.n)
		e.ok("Commit", err)
		if v != r.Verf {
			e.Errorf("Commit returned verifier %x, Write %x", v, r.Verf)
		}
	}
	g := e.create(e.fs.Root(), "g")
	r2, err := g.Write([]byte("abc"), 0, nfs3.FileSync)
	e.ok("Write", err)
	if r2.Verf != r.Verf {
		e.Errorf("the verifier changed from %x to %x without a restart", r.Verf, r2.Verf)
	}
}
