package probe_test

import (
	"cmp"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// played runs some cases and returns their results.
func played(t *testing.T, p *probe.Prober) (all []*probe.Result, err error) {
	t.Helper()
	p.Timeout, p.Quiet = cmp.Or(p.Timeout, time.Hour), 20*time.Millisecond
	_, err = p.Run(t.Context(), func(r *probe.Result) { all = append(all, r) })
	return all, err
}

// TestClientsLimited: a server that serves fewer clients at a time is tolerated.
func TestClientsLimited(t *testing.T) {
	t.Parallel()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/mem", FS: mem.New(nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveWith(t, &transport.Server{Handler: h, Config: &transport.Config{Limits: transport.Limits{Conns: 40}}})
	all, err := played(t, &probe.Prober{Address: addr, Only: regexp.MustCompile("^load/clients$"), Clients: 80})
	if err != nil || len(all) != 1 || all[0].Verdict != "tolerated" || !strings.HasSuffix(all[0].Tries[0].Answer, " of 80") {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestGrowth: a server that uses more after the cases than before fails the last one.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for what, grow := range map[string]func(*probe.Usage){
		"octets of memory": func(u *probe.Usage) { u.Memory += 1 << 30 },
		"descriptors":      func(u *probe.Usage) { u.Descriptors += 48 },
		"threads":          func(u *probe.Usage) { u.Threads += 1000 },
		"goroutines":       func(u *probe.Usage) { u.Goroutines += 48 },
		"":                 func(*probe.Usage) {},
	} {
		now := probe.Usage{Memory: 1 << 20, Descriptors: 9, Threads: 8, Goroutines: 7}
		p := &probe.Prober{Address: serve(t), Only: regexp.MustCompile("^(mpa/wrong-key|resources/.*)$")}
		if what != "" {
			p.Timeout = 3 * time.Second // that it shrinks again is waited for in vain
		}
		p.Usage = func() (probe.Usage, error) {
			u := now
			grow(&now)
			return u, nil
		}
		all, err := played(t, p)
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		if try := all[1].Tries[0]; (try.Verdict == "fails") != (what != "") || !strings.Contains(try.Why, what) {
			t.Errorf("%s: %+v", what, try)
		}
	}
}
