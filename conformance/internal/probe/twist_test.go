package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	nfsserver "github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// serve runs a server, and returns its address.
func serve(t testing.TB, h rpc.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, done := &transport.Server{Handler: h}, make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

// twisted returns the address of a server with a twist.
func twisted(t *testing.T, tw *twist, server string) string {
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
			all.Go(func() { (&relay{twist: tw, Client: client, Server: nc}).Run() })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// odd answers NULL, and READ with the octets that were asked for.
func odd(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	be := binary.BigEndian
	switch {
	case req.Prog != 100003:
		resp.Stat = xdr.ProgUnavail
	case req.Vers != 3:
		resp.ProgMismatch(3, 3)
	case req.Proc == 6 && len(req.Args) > 4:
		n := be.Uint32(req.Args[len(req.Args)-4:])
		for _, w := range []uint32{0, 0, n, 0} { // status, no attributes, count, no eof
			resp.Results = be.AppendUint32(resp.Results, w)
		}
		resp.AppendItem(make([]byte, n))
	case req.Proc != 0:
		resp.Stat = xdr.ProcUnavail
	}
}

// someCases are enough to catch them all.
var someCases = regexp.MustCompile(`^(mpa/flags|mpa/depths|mpa/wrong-key|fpdu/bad-crc|ddp/version|ddp/queue|ddp/msn|rdmap/version|rdmap/write|header/version|header/lists|load/credits|chunks/([a-c].*|long-call|reply|unused-write|read-odd)|rpc/program-version|ddp/.*|rdmap/.*|header/[l-w].*)$`)

// TestTwists: servers that are wrong in one respect each are caught, every one. The one without a twist passes, so
// it is not the relay that is caught.
func TestTwists(t *testing.T) {
	t.Parallel()
	server := serve(t, rpc.HandlerFunc(odd))
	var all sync.WaitGroup
	for _, tw := range slices.Concat([]twist{{Name: "none"}}, twists(), rareTwists()) {
		all.Go(func() { // at the same time: they wait more than they work
			p := &Prober{Address: twisted(t, &tw, server), Handle: []byte("file"), Only: someCases, Timeout: time.Second, Quiet: 50 * time.Millisecond}
			if tw.Name == "none" {
				p.Timeout, p.Quiet = time.Hour, 500*time.Millisecond
			}
			var caught []string
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := p.Run(ctx, func(r *Result) {
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

// TestOneFault: a server that is wrong in the startup of every connection fails in one case, which says how, and all
// others are played.
func TestOneFault(t *testing.T) {
	t.Parallel()
	nfs, err := nfsserver.New(&nfsserver.Config{Exports: []nfsserver.Export{{Path: "/mem", FS: mem.New(nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, nfs)
	for _, tt := range []struct{ twist, says string }{
		{"reply-not-enhanced", "S of its Reply is false, of the Request true"},
		{"reply-revision", "an MPA Reply that is not one"},
		{"reply-shallow", "MPA-014"},
		{"reply-deep", "ORD of its Reply is"},
		{"reply-peer-to-peer", "A of its Reply is true"},
		{"crc", "an FPDU that cannot be read: mpa: CRC error"},
	} {
		t.Run(tt.twist, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(twists(), func(tw twist) bool { return tw.Name == tt.twist })
			// The usual call is played although it is not selected.
			p := &Prober{
				Address: twisted(t, &twists()[i], server), Only: someCases, Skip: regexp.MustCompile("^(load/|mpa/depths)"),
				Quiet: 500 * time.Millisecond, Timeout: time.Hour,
			}
			n := 0
			_, err := p.Run(t.Context(), func(r *Result) {
				n++
				said := fmt.Sprintf("%+v", r.Tries)
				if r.Name == "mpa/usual" &&
					(r.Verdict != "fails" || !strings.Contains(said, tt.says)) ||
					r.Name != "mpa/usual" && r.Verdict != "ok" {
					t.Errorf("%s: %s: %s %q", r.Name, r.Verdict, said, r.Alive)
				}
			})
			if err != nil || n != 1+len(p.Cases()) {
				t.Errorf("%d cases, 1 more than %d are wanted; %v", n, len(p.Cases()), err)
			}
		})
	}
}

// TestTwistRules: the rules that the twists name exist.
func TestTwistRules(t *testing.T) {
	seen := make(map[string]bool)
	for _, tw := range append(twists(), rareTwists()...) {
		if _, ok := judge.Find(tw.Rule); tw.Rule != "" && !ok || seen[tw.Name] || tw.Does == "" {
			t.Errorf("%+v", tw)
		}
		seen[tw.Name] = true
	}
}
