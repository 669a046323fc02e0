package region_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// The sums of the built-in algorithms, and of others; published values of "123456789"
// (the check value of CRC32C) and "abc" (FIPS 180-4). Guarded memory has the same ones.
func TestSums(t *testing.T) {
	sha512Hash := &region.Hash{Size: sha512.Size, New: sha512.New}
	abc512 := sha512.Sum512([]byte("abc"))
	abc256, _ := hex.DecodeString("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	for _, tt := range []struct {
		h    *region.Hash
		data string
		want []byte
	}{
		{nil, "123456789", []byte{0xe3, 0x06, 0x92, 0x83}},
		{region.CRC32C, "123456789", []byte{0xe3, 0x06, 0x92, 0x83}},
		{region.SHA256, "abc", abc256},
		{sha512Hash, "abc", abc512[:]},
	} {
		if got := sumOf(t, region.Bytes("xx"+tt.data), tt.h, len(tt.data)); !bytes.Equal(got, tt.want) {
			t.Errorf("%q: %x, want %x", tt.data, got, tt.want)
		}
		plain, g := region.Bytes("xxabcd"), &guarded{plainBytes: region.Bytes("xxabcd")}
		if got, want := sumOf(t, g, tt.h, 4), sumOf(t, plain, tt.h, 4); !bytes.Equal(got, want) || len(g.calls) != 1 {
			t.Errorf("guarded: %x, want %x; %v", got, want, g.calls)
		}
	}
}

// sumOf returns the sum of n octets of mem, beginning with the third.
func sumOf(t *testing.T, mem region.Memory, h *region.Hash, n int) []byte {
	t.Helper()
	tab := region.NewTable()
	r, err := tab.RegisterMemory(mem, region.Options{Access: region.Verify, Hash: h})
	if err != nil {
		t.Fatal(err)
	}
	v := must(tab.Lookup(r.STag(), 2, uint32(n), region.Verify))(t)
	defer v.Release()
	sum, err := v.AppendSum([]byte("before"))
	if err != nil || !bytes.HasPrefix(sum, []byte("before")) {
		t.Fatalf("%x, %v", sum, err)
	}
	return sum[6:]
}

func TestImpossibleHash(t *testing.T) {
	long := func() hash.Hash { return nil }
	for i, h := range []*region.Hash{
		{}, {Size: 16}, {Size: 0, New: md5.New}, {Size: 65, New: long}, {Size: -1, New: md5.New}, {Size: 15, New: md5.New}, {Size: 17, New: md5.New},
	} {
		if _, err := region.NewTable().RegisterMemory(make(region.Bytes, 8), region.Options{Hash: h}); !errors.Is(err, region.ErrHash) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := region.NewTable().RegisterMemory(make(region.Bytes, 8), region.Options{Hash: &region.Hash{Size: 16, New: md5.New}}); err != nil {
		t.Error(err)
	}
}
