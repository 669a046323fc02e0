package xdrreflect_test

import (
	"bytes"
	"testing"

	oracle "github.com/davecgh/go-xdr/xdr2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// fuzzLimits are small, so that the fuzzer reaches them.
var fuzzLimits = xdrreflect.Limits{MaxOctets: 1 << 16, MaxMemory: 1 << 18, MaxDepth: 200}

// targets returns fresh values of the types under test.
func targets() []any {
	return []any{
		new(mnt), new(scalars), new(lists), new(union), new(flagged), new([]wide), new([]tree),
		new(armed), new([][][]byte), new([]string), new([3]bool),
	}
}

// FuzzUnmarshal reads any octets as any of the types. What is accepted is
// written again in as many octets and read again to the same value; nothing
// allocates beyond the limit.
func FuzzUnmarshal(f *testing.F) {
	for i, s := range []string{
		goldenMntHex, goldenScalarsHex, goldenListsHex, "00000005 0000000000000001 00000009",
		"00000001 0000000000000003", "00010000 00000000 00000000", "00000002 00000001 00000000 00000000",
		"00000001 00000001 00000001 00000000", "00000001 00000001 ffffffff", "ffffffff", "00000000 00000001 00000002",
	} {
		f.Add(byte(i), unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		v, again := targets()[int(which)%len(targets())], targets()[int(which)%len(targets())]
		var rest []byte
		var err error
		// go-xdr's own calls cost some, too: words are read through an
		// interface, octet by octet of the input.
		limit := uint64(2*fuzzLimits.MaxMemory + 64*len(b) + 256<<10)
		if got := allocated(func() { rest, err = fuzzLimits.Unmarshal(b, v) }); got > limit {
			t.Errorf("%d octets allocated for %d octets of input", got, len(b))
		}
		if err != nil {
			return
		}
		out, err := fuzzLimits.Marshal(v)
		if err != nil || len(out) != len(b)-len(rest) {
			t.Fatalf("%x, %d octets of it read, became %x, %v", b, len(b)-len(rest), out, err)
		}
		if _, err := fuzzLimits.Unmarshal(out, again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, again, exporter, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("-first +second:\n%s", diff)
		}
	})
}

// FuzzAgainstOracle reads any octets as types that the oracle has a form for:
// both accept or both refuse, and the values are the same. The bound keeps the
// oracle from allocating what a count says.
func FuzzAgainstOracle(f *testing.F) {
	f.Add(unhex(f, goldenListsHex))
	f.Add(unhex(f, goldenListsHex+"ff"))
	f.Add(unhex(f, "00000003 616263ff 00000000 0908070605000000 00000000 00000000 00007fff 00008000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want lists
		_, err := xdrreflect.Unmarshal(b, &got)
		n, oerr := oracle.UnmarshalLimited(bytes.NewReader(b), &want, uint(len(b))+1)
		if (err == nil) != (oerr == nil) {
			t.Fatalf("we: %v, oracle: %v after %d octets", err, oerr, n)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-oracle +ours:\n%s", diff)
		}
	})
}
