package probe_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TestBroken: servers that do not survive, or do what they must not. The probe says so,
// with the reason.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fake *fake
		only string
		why  string // somewhere in what is said
		gone bool
	}{
		{"accepts every startup", &fake{startup: true}, "^mpa/wrong-key$", "accepted the connection", false},
		{"silent", &fake{silent: true, bad: func(*fake, *fakeConn) {}}, "^mpa/no-enhanced-word$", "silence instead of an MPA Reply", false},
		{"dies", &fake{bad: (*fake).die}, "^mpa/wrong-key$", "does not accept connections any more", true},
		{"ends all connections", &fake{bad: func(f *fake, _ *fakeConn) { f.closeAll() }}, "^mpa/wrong-key$", "a connection that had nothing to do with it was ended", false},
		{"does not look at CRCs", &fake{blind: true, silent: true, bad: func(*fake, *fakeConn) {}}, "^fpdu/bad-crc$", "answered SUCCESS", false},
		{"does not check versions", &fake{bad: func(*fake, *fakeConn) {}}, "^rdmap/version$", "answered SUCCESS", false},
		{"holds up others", &fake{mute: true, silent: true, bad: func(*fake, *fakeConn) {}}, "^slow/half-fpdu$", "is not served any more", true},
		{"answers bad headers", &fake{any: true}, "^header/type$", "answered SUCCESS", false},
		{"writes where it likes", &fake{bad: func(_ *fake, c *fakeConn) {
			_ = c.SendSegment(c.Tagged(0, 0xdead00, 8), make([]byte, 8))
			c.refuse(32)
		}}, "^header/type$", "it wrote 8 octets at 0x8 of STag 0xdead00, which nobody has offered", false},
		{"reads where it likes", &fake{bad: func(_ *fake, c *fakeConn) {
			_ = c.SendSegment(c.Untagged(1, ddp.QNRequest), make([]byte, 28))
		}}, "^header/msgp$", "it read 0 octets at 0x0 of STag 0x0, which nobody has offered", false},
		{"serves no more after a refusal", &fake{silent: true, bad: func(_ *fake, c *fakeConn) {
			c.refuse(32)
			c.deaf = true
		}}, "^header/msgp$", "the call after it on the same connection was not answered", false},
		{"grants no credit", &fake{bad: func(_ *fake, c *fakeConn) { c.refuse(0) }}, "^header/msgp$", "grants no credit", false},
		{"answers twice", &fake{bad: func(_ *fake, c *fakeConn) { c.refuse(32); c.refuse(32) }}, "^header/msgp$", "a second answer", false},
		{"executes what it has not read", &fake{bad: func(_ *fake, c *fakeConn) { c.reply(c.xid) }}, "^chunks/bad-stag$", "answered SUCCESS", false},
		{"takes no new connections", &fake{bad: func(f *fake, c *fakeConn) {
			f.l.Close()
			c.refuse(32)
		}}, "^header/msgp$", "a new connection is not served", true},
		{"cuts a call short", &fake{bad: func(_ *fake, c *fakeConn) { c.hangUp() }}, "^header/msgp$", "closed the connection", false},
		{"answers what is to be dropped", &fake{bad: func(_ *fake, c *fakeConn) { c.refuse(32) }}, "^header/done$", "ERR_CHUNK", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			p := &probe.Prober{
				Address: tt.fake.start(t), Only: regexp.MustCompile(tt.only),
				Timeout: time.Hour, Quiet: 20 * time.Millisecond,
			}
			if tt.fake.silent {
				p.Timeout = 5 * time.Second // it is waited for in vain, once
			}
			if tt.fake.mute {
				p.Quiet *= 10 // until then it must have begun to read, busy machine or not
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
