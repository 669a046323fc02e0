package probe_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/conformance/internal/probe/internal/twist"
	"github.com/stag-rdma/stag/conformance/judge"
)

// twisted returns the address of a server with a twist.
func twisted(t *testing.T, tw *twist.Twist, server string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			nc, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { (&twist.Relay{Twist: tw, Client: client, Server: nc}).Run() })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// someCases are enough to catch them all.
var someCases = regexp.MustCompile(`^(mpa/flags|mpa/depths|mpa/wrong-key|fpdu/bad-crc|ddp/version|ddp/queue|ddp/msn|rdmap/version|rdmap/write|header/version|header/lists|load/credits|chunks/([a-c].*|long-call|unused-write)|ddp/.*|rdmap/.*|header/[l-w].*)$`)

// TestTwists: servers that are wrong in one respect each are caught, every one. The one without a twist passes, so
// it is not the relay that is caught.
func TestTwists(t *testing.T) {
	t.Parallel()
	server := serve(t)
	var all sync.WaitGroup
	for _, tw := range append([]twist.Twist{{Name: "none"}}, twist.Table()...) {
		if tw.Name == "pad" {
			continue // answers to NULL have no pad: only clients can meet this one
		}
		all.Go(func() { // at the same time: they wait more than they work
			p := &probe.Prober{Address: twisted(t, &tw, server), Only: someCases, Timeout: time.Second, Quiet: 50 * time.Millisecond}
			if tw.Name == "none" {
				p.Timeout = 10 * time.Second
			}
			var caught []string
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := p.Run(ctx, func(r *probe.Result) {
				if r.Verdict != "ok" {
					cancel() // once is enough
					caught = append(caught, fmt.Sprintf("%s %+v %q", r.Name, r.Tries, r.Alive))
				}
			})
			if (err != nil || len(caught) > 0) != (tw.Name != "none") {
				t.Errorf("%s (%s) is caught by %q, %v", tw.Name, tw.Does, caught, err)
			}
		})
	}
	all.Wait()
}

// TestTwistRules: the rules that the twists name exist.
func TestTwistRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, tw := range twist.Table() {
		if _, ok := judge.Find(tw.Rule); tw.Rule != "" && !ok || seen[tw.Name] || tw.Does == "" {
			t.Errorf("%+v", tw)
		}
		seen[tw.Name] = true
	}
	if len(seen) < 30 {
		t.Errorf("%d twists, want 30", len(seen))
	}
}
