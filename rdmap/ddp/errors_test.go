package ddp_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// The map from violation to Terminate code is total, and nothing maps to a code that RFC 5041 Section
// 7.2 does not define.
func TestViolationTable(t *testing.T) {
	registered := map[[3]uint8]bool{{1, 0, 0}: true, {0, 2, 6}: true}
	for c := range uint8(5) {
		registered[[3]uint8{1, 1, c}] = true
	}
	for c := range uint8(6) {
		registered[[3]uint8{1, 2, c + 1}] = true
	}
	seen, words := map[[3]uint8]ddp.Violation{}, map[string]bool{}
	beyond := ddp.LocalCatastrophic
	for ; !strings.HasPrefix(beyond.String(), "Violation("); beyond++ {
		v := beyond
		l, e, c := v.Code()
		code := [3]uint8{l, e, c}
		if prev, dup := seen[code]; dup || !registered[code] {
			t.Errorf("%v: %v, before: %v", v, code, prev)
		}
		seen[code] = v
		if s := v.String(); s == "" || words[s] {
			t.Errorf("%d: %q", v, s)
		}
		words[v.String()] = true
	}
	if len(seen) != len(registered) {
		t.Errorf("%d codes used, %d registered", len(seen), len(registered))
	}
	for _, v := range []ddp.Violation{ddp.OK, beyond, 0xff} {
		if l, e, c := v.Code(); l != 1 || e != 0 || c != 0 {
			t.Errorf("%v: %x %x %x", v, l, e, c)
		}
	}
	if got := ddp.Violation(0x2a).String(); got != "Violation(0x2a)" {
		t.Errorf("%q", got)
	}
}
