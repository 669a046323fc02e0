package push

import (
	"io"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// When commit connections are tried again at once, and else after how many rests.
func TestNativeTries(t *testing.T) {
	cut := &verbs.ConnError{Op: "read", Err: io.EOF}
	refused := &verbs.TerminateError{}
	type end struct {
		useful bool
		err    error
	}
	many := make([]end, 100)
	for i := range many {
		many[i].err = cut
	}
	for name, test := range map[string]struct {
		ends  []end
		rests int
	}{
		"nothing yet":            {nil, 0},
		"two came to nothing":    {[]end{{false, cut}, {false, cut}}, 0},
		"three came to nothing":  {[]end{{false, cut}, {false, cut}, {false, cut}}, 4},
		"many came to nothing":   {many, 256},
		"one of many was useful": {[]end{{false, cut}, {false, cut}, {true, cut}, {false, cut}, {false, cut}}, 0},
		"lacks the extension":    {[]end{{false, commitlog.ErrNoExtension}}, 4},
		"refused the operations": {[]end{{false, refused}}, 4},
		"refused later":          {[]end{{true, refused}}, 0},
	} {
		n, now := nativeTries{rest: time.Second}, time.Now()
		for _, e := range test.ends {
			n.ended(e.useful, e.err, now)
		}
		rests := time.Duration(test.rests) * time.Second
		if n.wanted(now) != (rests == 0) || !n.wanted(now.Add(rests)) || rests > 0 && n.wanted(now.Add(rests-1)) {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
