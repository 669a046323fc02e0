package mpa

import (
	"strings"
	"testing"
)

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for c := CodeClosed; c <= CodeRTR; c++ {
		s := c.String()
		if s == "" || strings.HasPrefix(s, "Code(") || seen[s] {
			t.Errorf("code %d: %q", c, s)
		}
		seen[s] = true
		e := &Error{Code: c}
		if want := c != CodeClosed && c != CodeStartup; e.Terminate() != want {
			t.Errorf("%v: Terminate %v", c, e.Terminate())
		}
		if !strings.HasPrefix(e.Error(), "mpa: "+s) {
			t.Errorf("%q", e.Error())
		}
	}
	if got := Code(0x2a).String(); got != "Code(0x2a)" {
		t.Errorf("got %q", got)
	}
	if s := (&RejectError{}).Error(); !strings.HasPrefix(s, "mpa: ") {
		t.Errorf("%q", s)
	}
	if s := (&RefuseError{ErrPlain}).Error(); !strings.HasPrefix(s, "mpa: ") {
		t.Errorf("%q", s)
	}
}
