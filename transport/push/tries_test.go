package push

import (
	"io"
	"testing"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// When commit connections are tried again, and when not.
func TestNativeTries(t *testing.T) {
	cut := &verbs.ConnError{Op: "read", Err: io.EOF}
	refused := &verbs.TerminateError{}
	type end struct {
		useful bool
		err    error
	}
	for name, test := range map[string]struct {
		ends []end
		want bool
	}{
		"nothing yet":            {nil, true},
		"two came to nothing":    {[]end{{false, cut}, {false, cut}}, true},
		"three came to nothing":  {[]end{{false, cut}, {false, cut}, {false, cut}}, false},
		"one of many was useful": {[]end{{false, cut}, {false, cut}, {true, cut}, {false, cut}, {false, cut}}, true},
		"lacks the extension":    {[]end{{false, commitlog.ErrNoExtension}}, false},
		"refused the operations": {[]end{{false, refused}}, false},
		"refused later":          {[]end{{true, refused}}, true},
	} {
		var n nativeTries
		for _, e := range test.ends {
			n.ended(e.useful, e.err)
		}
		if n.wanted() != test.want {
			t.Errorf("%s: %v", name, n.wanted())
		}
	}
}
