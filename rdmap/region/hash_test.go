package region_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// TestSums: the published check value of CRC32C. Guarded memory has the same sums.
func TestSums(t *testing.T) {
	if got := sumOf(t, region.Bytes("xx123456789")); !bytes.Equal(got, []byte{0xe3, 0x06, 0x92, 0x83}) {
		t.Errorf("%x", got)
	}
	g := &guarded{plainBytes: region.Bytes("xxabcd")}
	if got, want := sumOf(t, g), sumOf(t, region.Bytes("xxabcd")); !bytes.Equal(got, want) || len(g.calls) != 1 {
		t.Errorf("guarded: %x, want %x; %v", got, want, g.calls)
	}
}

// sumOf returns the sum of mem without its first two octets.
func sumOf(t *testing.T, mem region.Memory) []byte {
	t.Helper()
	tab := region.NewTable()
	r := must(tab.RegisterMemory(mem, region.Options{Access: region.Verify}))(t)
	v := must(tab.Lookup(r.STag(), 2, uint32(len(mem.Bytes())-2), region.Verify))(t)
	defer v.Release()
	sum, err := v.AppendSum([]byte("before"))
	if err != nil || !bytes.HasPrefix(sum, []byte("before")) || len(sum) != 6+region.SumLen {
		t.Fatalf("%x, %v", sum, err)
	}
	return sum[6:]
}
