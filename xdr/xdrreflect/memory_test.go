package xdrreflect_test

import (
	"errors"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// TestSplitMemory: what is said before a value is made is what Limits.MaxMemory counts, whatever its item, and copies.
func TestSplitMemory(t *testing.T) {
	type grown struct {
		Names []string
		Lists [][]uint32
		Next  *mnt        `xdr:"optional"`
		Kind  uint32      `xdr:"union"`
		Data  []byte      `xdr:"unioncase=0"`
		Far   **[9]uint64 `xdr:"unioncase=1"`
	}
	for i, v := range []*grown{
		{},
		{Names: make([]string, 1000)},
		{Names: []string{"a", "some more"}, Lists: make([][]uint32, 77), Data: make([]byte, 999)},
		{Next: goldenMnt(), Kind: 7},
	} {
		b, err := xdrreflect.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s := splitOf(t, v)
		n := s.Memory(b) - int(reflect.TypeFor[grown]().Size())
		if _, err := (xdrreflect.Limits{MaxMemory: n}).Unmarshal(b, new(grown)); err != nil {
			t.Errorf("%d: %d octets are too few: %v", i, n, err)
		}
		if _, err := (xdrreflect.Limits{MaxMemory: n - 1}).Unmarshal(b, new(grown)); !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%d: %d octets are enough: %v", i, n-1, err)
		}
	}

	type stored struct {
		Names []string
		Data  []byte `xdr:"ddp"`
		Tail  uint32
	}
	s, size, header := splitOf(t, &stored{}), int(reflect.TypeFor[stored]().Size()), int(reflect.TypeFor[string]().Size())
	names := append(xdr.AppendUint32(nil, 5000), make([]byte, 4*5000)...)
	for _, tt := range []struct {
		name string
		b    []byte
		want int
	}{
		{"no item", append(slices.Clip(names), make([]byte, 8)...), size + 5000*header + len(names) + 8},
		{"an item", append(xdr.AppendOpaque(slices.Clip(names), make([]byte, 8<<20-3)), 0, 0, 0, 7), size + 5000*header + len(names) + 8},
		{"cut", names[:len(names)-4], size},
		{"cut behind the item", append(slices.Clip(names), 0, 0, 0, 0), size + len(names) + 4},
		{"longer than is decoded", append(xdr.AppendUint32(nil, 2<<20), make([]byte, 8<<20+8)...), size},
		{"nothing", nil, size},
	} {
		if got := s.Memory(tt.b); got != tt.want {
			t.Errorf("%s: %d octets, want %d", tt.name, got, tt.want)
		}
		var v stored
		made := allocated(func() { _ = s.Unmarshal(tt.b, nil, &v) })
		if most := uint64(tt.want + tt.want/4 + 8<<10); made > most && !raced() {
			t.Errorf("%s: %d octets were made, more than %d", tt.name, made, most)
		}
		if n := testing.AllocsPerRun(10, func() { s.Memory(tt.b) }); tt.want > size && len(tt.b) > len(names)+4 && n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

// raced reports whether the race detector is on, with which a slice that grows by another is made twice.
func raced() bool {
	b, _ := debug.ReadBuildInfo()
	return slices.ContainsFunc(b.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}
