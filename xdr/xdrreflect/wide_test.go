//go:build amd64 || arm64 || s390x || ppc64le || riscv64

package xdrreflect_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// An int is 4 octets on the wire; go-xdr would cut larger ones silently.
func TestIntsAbove32Bits(t *testing.T) {
	for _, v := range []any{int(1 << 31), int(-1<<31 - 1), uint(1 << 32)} {
		if _, err := xdrreflect.Marshal(v); !errors.Is(err, xdr.ErrRange) {
			t.Errorf("Marshal(%T %v): %v, want ErrRange", v, v, err)
		}
	}
}
