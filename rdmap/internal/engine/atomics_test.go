package engine_test

import (
	"encoding/binary"
	"errors"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Vectors 4.18 to 4.21.
const (
	goldFetchAdd = "0046414a0000000000000001000000020000000000000000000001011122334400000000000010080000000000000005" +
		"00000000000000000000000000000000ffffffffffffffff106f1996"
	goldCmpSwap = "0046414a000000000000000100000003000000000000000200000102112233440000000000001008deadbeefcafef00d" +
		"ffffffffffffffff0000000000000007ffffffffffffffff202d961e"
	goldSwap = "0046414a0000000000000001000000040000000000000001000001031122334400000000000010081111222233334444" +
		"ffffffffffffffff0000000000000000ffffffffffffffff28b78128"
	goldAtomicResp = "001e414b00000000000000030000000100000000000001010000000000000002abad93a9"
)

const ones = ^uint64(0)

// retarget gives a vector of queue 1 another STag and MSN.
func retarget(t testing.TB, vector string, at int, stag region.STag, msn byte) []byte {
	u := rdmaptest.Patch(t, vector, 13, msn)
	binary.BigEndian.PutUint32(u[18+at:], uint32(stag))
	return u
}

// TestMaskedAtomics compares with an oracle of big integers, field by field.
func TestMaskedAtomics(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	value := func() uint64 {
		switch v := rnd.Uint64(); rnd.IntN(4) {
		case 0:
			return v & rnd.Uint64() & rnd.Uint64()
		case 1:
			return v | rnd.Uint64() | rnd.Uint64()
		case 2:
			return []uint64{0, ones, 1, 1 << 63, 0x8080808080808080}[rnd.IntN(5)]
		default:
			return v
		}
	}
	for range 20000 {
		a, b, mask := value(), value(), value()
		want := new(big.Int)
		for low := 0; low < 64; {
			high := low
			for high < 63 && mask>>high&1 == 0 {
				high++
			}
			bits := uint(high - low + 1)
			field := func(v uint64) *big.Int {
				x := new(big.Int).Rsh(new(big.Int).SetUint64(v), uint(low))
				return x.Mod(x, new(big.Int).Lsh(big.NewInt(1), bits))
			}
			sum := new(big.Int).Add(field(a), field(b))
			sum.Mod(sum, new(big.Int).Lsh(big.NewInt(1), bits))
			want.Or(want, sum.Lsh(sum, uint(low)))
			low = high + 1
		}
		if got := region.AddFields(a, b, mask); got != want.Uint64() {
			t.Fatalf("%x + %x in %x: got %x, want %x", a, b, mask, got, want)
		}
	}
}

// TestAnswerKinds: a response on queue 3 answers the oldest request, if it is of its kind.
// A cancelled request is answered too, but the answer is dropped. An error names the response that
// was due.
func TestAnswerKinds(t *testing.T) {
	asks := []verbs.WR{
		{Op: verbs.OpAtomicRequest, Atomic: &verbs.Atomic{}},
		{Op: verbs.OpFlushRequest},
		{Op: verbs.OpVerifyRequest},
		{Op: verbs.OpAtomicWriteRequest, Body: make([]byte, 8)},
	}
	for i, wr := range asks {
		for j, resp := range []string{goldAtomicResp, goldFlushResp, goldVerifyResp, rdmaptest.Gold.AWResp} {
			for _, how := range []string{"alone", "after a Read", "cancelled"} {
				e := newEngine(engineConfig{ord: 2, ext: engine.ExtAll})
				id := byte(1)
				if how == "after a Read" {
					reading(t, e)
					id = 0 // a Read has none
				}
				var d rdmaptest.Done
				ans := verbs.Answer{Old: 5}
				wr.Done, wr.Answer = &d, &ans
				e.post(wr)
				e.output()
				if how == "cancelled" && e.snd.Cancel(&d) {
					t.Fatal("a request in flight was removed from the queue")
				}
				u := rdmaptest.Patch(t, resp, 18, 0, 0, 0, id)
				u[13] = 1 // MSN
				e.input(rdmaptest.FPDU(u))
				pe, _ := errors.AsType[*verbs.ProtocolError](e.err)
				right := i == j && how != "after a Read"
				if right != (pe == nil) || right != (d.Err == nil) || d.N != 1 || pe != nil && pe.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 0xff}) {
					t.Errorf("%v %s, answer %d: %v, %+v", wr.Op, how, j, e.err, d)
				}
				want := wr.Op + 1
				if how == "after a Read" {
					want = verbs.OpReadResponse
				}
				if pe != nil && !strings.HasSuffix(pe.Error(), "want "+want.String()) {
					t.Errorf("%v %s, answer %d: %v, want it to name %v", wr.Op, how, j, pe, want)
				}
				written := ans.Old != 5 || ans.N != 0
				if wants := wr.Op == verbs.OpAtomicRequest || wr.Op == verbs.OpVerifyRequest; written != (right && wants && how == "alone") {
					t.Errorf("%v %s, answer %d: %+v", wr.Op, how, j, ans)
				}
			}
		}
	}
}
