package probe_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/probe"
)

// TestBroken: servers that do not survive, or do what they must not. The probe says so,
// with the reason.
func TestBroken(t *testing.T) {
	for _, tt := range []struct {
		name string
		fake *fake
		only string
		why  string // somewhere in what is said
		gone bool
	}{
		{"accepts every startup", &fake{startup: true}, "^mpa/wrong-key$", "accepted the connection", false},
		{"silent", &fake{bad: func(*fake, *fakeConn) {}}, "^fpdu/bad-crc-first$", "silence", false},
		{"dies", &fake{bad: (*fake).die}, "^mpa/wrong-key$", "does not accept connections any more", true},
		{"closes all connections", &fake{bad: func(f *fake, _ *fakeConn) { f.closeAll(nil) }}, "^mpa/wrong-key$",
			"a connection that had nothing to do with it was ended", false},
		{"does not look at CRCs", &fake{blind: true, bad: func(*fake, *fakeConn) {}}, "^fpdu/bad-crc$", "answered SUCCESS", false},
		{"does not check versions", &fake{bad: func(*fake, *fakeConn) {}}, "^rdmap/version$", "answered SUCCESS", false},
		{"holds up others", &fake{mute: true, bad: func(*fake, *fakeConn) {}}, "^slow/half-fpdu$", "is not served any more", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			p := &probe.Prober{
				Address: tt.fake.start(t), Only: regexp.MustCompile(tt.only),
				Timeout: 2 * time.Second, Quiet: 20 * time.Millisecond,
			}
			var said []string
			failed, err := p.Run(t.Context(), func(r *probe.Result) {
				for _, try := range r.Tries {
					said = append(said, try.Verdict+" "+try.Did+" "+try.Why)
				}
				said = append(said, r.Alive...)
			})
			if failed != 1 || errors.Is(err, probe.ErrGone) != tt.gone || (err != nil) != tt.gone {
				t.Errorf("%d failed, %v", failed, err)
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, tt.why) }) {
				t.Errorf("nothing says %q:\n%s", tt.why, strings.Join(said, "\n"))
			}
		})
	}
}

// TestUnreachable: no server, and one that does not know the program.
func TestUnreachable(t *testing.T) {
	f := &fake{}
	addr := f.start(t)
	f.die(nil)
	for _, p := range []*probe.Prober{
		{Address: addr},
		{Address: serve(t), Program: 0x20000001, Version: 1},
	} {
		if _, err := p.Run(t.Context(), nil); !errors.Is(err, probe.ErrUnreachable) {
			t.Errorf("%v", err)
		}
	}
}
