package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// What tests from outside need of the inside: rpcbind's port, where they cannot listen,
// and whether a URL names one; and the export that
// a path leads to, with the list that was seen.

func (c Config) WithRPCBind(port string) *Config { c.rpcbindPort = port; return &c }

func (u URL) WithGiven(given bool) URL { u.given = given; return u }

func (m *Mounter) Attach(ctx context.Context, p string) (string, nfs3.FileHandle, []string, error) {
	return m.attach(ctx, p)
}

func TestServes(t *testing.T) {
	parse := func(s string) *URL {
		u, err := ParseURL(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	c := &Client{export: "/a", exports: []string{"/a", "/a/b"}}
	at := parse("nfs://h/a")
	for s, want := range map[string]bool{
		"nfs://h/a/x": true, "nfs://h/a/b/x": false, "nfs://h/c": false, "nfs://i/a": false,
	} {
		if got := c.Serves(at, parse(s)); got != want {
			t.Errorf("Serves(%s) = %v, want %v", s, got, want)
		}
	}
	c.exports = nil
	if !c.Serves(at, parse("nfs://h/a/b/x")) {
		t.Error("without a list the prefix decides")
	}
}

func TestErrorsOfStatuses(t *testing.T) {
	for s := range statusTexts {
		text := (&StatusError{Proc: nfs3.ProcRead, Status: s}).Error()
		if strings.Contains(text, "0x") || strings.Contains(text, "unknown") {
			t.Errorf("status %d has no text: %q", s, text)
		}
	}
	for s, want := range map[nfs3.Status]error{
		nfs3.ErrNoEnt: fs.ErrNotExist, nfs3.ErrExist: fs.ErrExist, nfs3.ErrAcces: fs.ErrPermission,
	} {
		if err := pathErr("x", "/y", &StatusError{Status: s}); !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if pathErr("x", "y", nil) != nil {
		t.Error("nil must stay nil")
	}
	if got := prefixes("/a/b"); !slices.Equal(got, []string{"/a/b", "/a", "/"}) {
		t.Errorf("prefixes = %q", got)
	}
}

// newPump moves src to dst through a pump, with the given geometry.
func newPump(block, depth int, move moveFunc) *pump {
	return &pump{bufs: &freeList{block, make(chan []byte, depth)}, depth: depth, move: move}
}

func TestPumpFirstErrorStops(t *testing.T) {
	bad := errors.New("bad block")
	var calls atomic.Int32
	behind := make(chan struct{})
	over := sync.OnceFunc(func() { close(behind) })
	p := newPump(10, 4, func(ctx context.Context, _ *worker, off int64, n int) (int, bool, error) {
		calls.Add(1)
		if off == 30 {
			<-behind // is in flight
			return 5, false, bad
		}
		if off > 30 {
			over()
			<-ctx.Done()
		}
		return n, false, nil
	})
	good, _, err := p.run(t.Context(), 0, 1000)
	if !errors.Is(err, bad) {
		t.Fatalf("got %v, want %v", err, bad)
	}
	if good != 35 {
		t.Errorf("good = %d, want 35: everything before the failed octet", good)
	}
	if n := calls.Load(); n > 4+3+1 {
		t.Errorf("%d blocks were started, want the pump to stop", n)
	}
}

func TestPumpCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	p := newPump(1, 2, func(ctx context.Context, _ *worker, off int64, n int) (int, bool, error) {
		if off == 5 {
			cancel(why)
		}
		return n, false, nil
	})
	_, _, err := p.run(ctx, 0, 1000)
	if !errors.Is(err, why) {
		t.Fatalf("got %v, want the context's cause", err)
	}
}
