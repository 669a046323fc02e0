package mpa_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for c := mpa.CodeClosed; c <= mpa.CodeRTR; c++ {
		s := c.String()
		if s == "" || strings.HasPrefix(s, "Code(") || seen[s] {
			t.Errorf("code %d: %q", c, s)
		}
		seen[s] = true
		e := &mpa.Error{Code: c}
		if want := c != mpa.CodeClosed && c != mpa.CodeStartup; e.Terminate() != want {
			t.Errorf("%v: Terminate %v", c, e.Terminate())
		}
		if !strings.HasPrefix(e.Error(), "mpa: "+s) {
			t.Errorf("%q", e.Error())
		}
	}
	if got := mpa.Code(0x2a).String(); got != "Code(0x2a)" {
		t.Errorf("got %q", got)
	}
	if s := (&mpa.RejectError{}).Error(); !strings.HasPrefix(s, "mpa: ") {
		t.Errorf("%q", s)
	}
}
