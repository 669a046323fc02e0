package xdrreflect_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// allocated returns how many octets f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLimits(t *testing.T) {
	list := func(n int) []byte { // n entries of a linked list
		b := bytes.Repeat(unhex(t, "00000000 00000000 00000001"), n)
		b[len(b)-1] = 0
		return b
	}
	for _, tc := range []struct {
		name string
		lim  xdrreflect.Limits
		b    []byte
		v    any
		ok   bool
	}{
		{"octets at the limit", xdrreflect.Limits{MaxOctets: 8}, unhex(t, "0000000461626364ff"), new([]byte), true},
		{"octets above", xdrreflect.Limits{MaxOctets: 8}, unhex(t, "000000056162636465000000"), new([]byte), false},
		{"octets above, cut by the limit", xdrreflect.Limits{MaxOctets: 4}, make([]byte, 8), new(uint64), false},
		{"depth at the limit", xdrreflect.Limits{MaxDepth: 7}, list(4), new(mnt), true},
		{"depth above", xdrreflect.Limits{MaxDepth: 6}, list(4), new(mnt), false},
		{"depth, the default", xdrreflect.Limits{}, list(4_000), new(mnt), true},
		{"depth above the default", xdrreflect.Limits{}, list(6_000), new(mnt), false},
		{"elements at the limit", xdrreflect.Limits{MaxMemory: 12}, unhex(t, "00000003000000000000000000000000"), new([]uint32), true},
		{"elements above", xdrreflect.Limits{MaxMemory: 11}, unhex(t, "00000003000000000000000000000000"), new([]uint32), false},
		{"opaque at the limit", xdrreflect.Limits{MaxMemory: 8}, unhex(t, "0000000461626364"), new([]byte), true},
		{"opaque above", xdrreflect.Limits{MaxMemory: 7}, unhex(t, "0000000461626364"), new(string), false},
		{"wide elements", xdrreflect.Limits{}, append(xdr.AppendUint32(nil, 1<<19), make([]byte, 2<<20)...), new([]wide), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = tc.lim.Unmarshal(tc.b, tc.v) })
			if tc.ok != (err == nil) || !tc.ok && !errors.Is(err, xdr.ErrRange) {
				t.Errorf("error %v, accepted should be %v", err, tc.ok)
			}
			if !tc.ok && got > 64<<10 {
				t.Errorf("%d octets allocated for a refusal", got)
			}
		})
	}
}

func TestMarshalLimits(t *testing.T) {
	ring := &mnt{}
	ring.Next = ring
	for _, tc := range []struct {
		name string
		lim  xdrreflect.Limits
		v    any
		ok   bool
	}{
		{"at the limit", xdrreflect.Limits{MaxOctets: 8}, []byte("abcd"), true},
		{"opaque above", xdrreflect.Limits{MaxOctets: 8}, []byte("abcde"), false},
		{"opaque far above", xdrreflect.Limits{MaxOctets: 8}, make([]byte, 9), false},
		{"count word above", xdrreflect.Limits{MaxOctets: 3}, []uint32{}, false},
		{"string count above", xdrreflect.Limits{MaxOctets: 3}, "", false},
		{"elements above", xdrreflect.Limits{MaxOctets: 8}, []uint32{1, 2}, false},
		{"array above", xdrreflect.Limits{MaxOctets: 7}, [2]uint32{}, false},
		{"optional above", xdrreflect.Limits{MaxOctets: 11}, mnt{}, false},
		{"contains itself", xdrreflect.Limits{}, ring, false},
		{"deep", xdrreflect.Limits{MaxDepth: 2}, goldenMnt(), false},
		{"int fits", xdrreflect.Limits{}, int(-1 << 31), true},
	} {
		if _, err := tc.lim.Marshal(tc.v); tc.ok != (err == nil) || !tc.ok && !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%s: error %v, accepted should be %v", tc.name, err, tc.ok)
		}
	}
}
