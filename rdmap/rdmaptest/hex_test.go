package rdmaptest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// failing is a test that remembers why it failed.
type failing struct{ why string }

func (f *failing) Helper()                           {}
func (f *failing) Fatalf(format string, args ...any) { f.why = fmt.Sprintf(format, args...) }

func TestHex(t *testing.T) {
	got := rdmaptest.Hex(t, `
		00000001 6c 000000   a name of one octet
		0a0b                 more`)
	if want := []byte{0, 0, 0, 1, 'l', 0, 0, 0, 10, 11}; !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
	f := &failing{}
	if rdmaptest.Hex(f, "none"); f.why == "" {
		t.Error("the test did not fail although there are no octets")
	}
}
