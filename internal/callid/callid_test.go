package callid_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/xdr"
)

func base() (net.Addr, *xdr.CallHeader, int) {
	cred := xdr.SysCred{MachineName: "a", UID: 1, GID: 2, GIDs: []uint32{3, 4}}
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 700},
		&xdr.CallHeader{XID: 7, Prog: 1, Vers: 2, Proc: 3, Cred: cred.Auth()}, 8
}

// TestParts: all that tells two calls apart is in the key, and each part alone suffices (ADVERSARY
// 27).
func TestParts(t *testing.T) {
	cred := func(change func(*xdr.SysCred)) func(*net.Addr, *xdr.CallHeader, *int) {
		return func(_ *net.Addr, h *xdr.CallHeader, _ *int) {
			c, err := xdr.ParseSysCred(h.Cred.Body)
			if err != nil {
				t.Fatal(err)
			}
			change(&c)
			h.Cred = c.Auth()
		}
	}
	for part, x := range map[string]struct {
		change func(a *net.Addr, h *xdr.CallHeader, n *int)
		same   bool
	}{
		"nothing":   {func(*net.Addr, *xdr.CallHeader, *int) {}, true},
		"port":      {func(a *net.Addr, _ *xdr.CallHeader, _ *int) { *a = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)} }, true},
		"stamp":     {cred(func(c *xdr.SysCred) { c.Stamp++ }), true},
		"address":   {func(a *net.Addr, _ *xdr.CallHeader, _ *int) { *a = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 8)} }, false},
		"machine":   {cred(func(c *xdr.SysCred) { c.MachineName = "b" }), false},
		"UID":       {cred(func(c *xdr.SysCred) { c.UID++ }), false},
		"GID":       {cred(func(c *xdr.SysCred) { c.GID++ }), false},
		"a group":   {cred(func(c *xdr.SysCred) { c.GIDs[1]++ }), false},
		"no group":  {cred(func(c *xdr.SysCred) { c.GIDs = nil }), false},
		"flavor":    {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.Cred.Flavor = xdr.AuthShort }, false},
		"handle":    {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.Cred.Body = []byte("1234") }, false},
		"XID":       {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.XID++ }, false},
		"program":   {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.Prog++ }, false},
		"version":   {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.Vers++ }, false},
		"procedure": {func(_ *net.Addr, h *xdr.CallHeader, _ *int) { h.Proc++ }, false},
		"length":    {func(_ *net.Addr, _ *xdr.CallHeader, n *int) { *n += 4 }, false},
	} {
		a, h, n := base()
		was := callid.Of(a, h, n)
		x.change(&a, h, &n)
		if same := callid.Of(a, h, n) == was; same != x.same {
			t.Errorf("%s: the same call: %v", part, same)
		}
	}
}

// TestShortCred: a credential that no server accepts is no reason to panic.
func TestShortCred(t *testing.T) {
	a, h, n := base()
	h.Cred.Body = []byte("12")
	_ = callid.Of(a, h, n)
}

// TestPieces: however the data are read, the Sum is that of the complete arguments.
func TestPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for range 200 {
		var whole, reduced []byte
		var data [][]byte
		var at [][2]int
		for range rnd.IntN(4) {
			head, item := random(4*rnd.IntN(9)), random(rnd.IntN(5000))
			reduced = append(reduced, head...)
			whole = append(append(whole, head...), item...)
			whole = append(whole, make([]byte, xdr.Pad(len(item)))...)
			data, at = append(data, item), append(at, [2]int{len(reduced), len(item)})
		}
		tail := random(4 * rnd.IntN(9))
		reduced, whole = append(reduced, tail...), append(whole, tail...)
		where := func(i int) (int, int) { return at[i][0], at[i][1] }

		var p callid.Pieces
		p.Reset(len(data))
		for _, i := range rnd.Perm(len(data)) {
			for off := 0; off < len(data[i]); {
				if p.Sum(reduced, where).Known {
					t.Fatal("known before all was read")
				}
				n := min(1+rnd.IntN(3000), len(data[i])-off)
				p.Add(i, off, data[i][off:off+n])
				p.Add(i, 0, data[i][:rnd.IntN(off+n+1)]) // read again
				off += n
			}
		}
		if got, want := p.Sum(reduced, where), callid.SumOf(whole); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if len(whole) > 0 {
			whole[rnd.IntN(len(whole))] ^= 0x40
			if got := callid.SumOf(bytes.Clone(whole)); got == p.Sum(reduced, where) {
				t.Fatal("other octets, the same sum")
			}
		}
	}
}

// TestAllocs: the sum of a call that is pulled costs no memory, warm.
func TestAllocs(t *testing.T) {
	var p callid.Pieces
	data, args := make([]byte, 10_000), make([]byte, 40)
	at := func(int) (int, int) { return 40, len(data) }
	if n := testing.AllocsPerRun(100, func() {
		p.Reset(1)
		p.Add(0, 0, data)
		if p.Sum(args, at) == callid.SumOf(args) {
			t.Error("sum")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
