package dir

import (
	"fmt"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

var ann = &caller.Identity{UID: 1000, GID: 1000}

var bob = &caller.Identity{UID: 1001, GID: 1001}

// TestRightsBounded: answers are bounded in number, and end.
func TestRightsBounded(t *testing.T) {
	var c rightsCache
	a := &nfs3.Attr{Mode: 0o644, Ctime: nfs3.Time{Sec: 1}}
	for i := range maxRights + 10 {
		c.put(fileKey{key: k(i)}, ann, a, 7, 5)
	}
	if len(c.m) != maxRights || c.order.Len() != maxRights {
		t.Errorf("%d answers", len(c.m))
	}
	last := fileKey{key: k(maxRights)}
	if asked, got := c.get(last, ann, a); asked != 7 || got != 5 {
		t.Errorf("%d, %d", asked, got)
	}
	for what, x := range map[string]func() (uint32, uint32){
		"another caller": func() (uint32, uint32) { return c.get(last, bob, a) },
		"another mode":   func() (uint32, uint32) { b := *a; b.Mode = 0; return c.get(last, ann, &b) },
		"another ctime":  func() (uint32, uint32) { b := *a; b.Ctime.Nsec = 1; return c.get(last, ann, &b) },
		"one that ended": func() (uint32, uint32) {
			c.m[last].Value.(*answer).until = time.Now().Add(-1)
			return c.get(last, ann, a)
		},
		"one that is out": func() (uint32, uint32) { return c.get(fileKey{key: k(1)}, ann, a) },
	} {
		if asked, _ := x(); asked != 0 {
			t.Errorf("%s has rights", what)
		}
	}
}

// TestKernelDeep: a directory whose path is longer than any path may be is in the export, also where only paths
// tell that.
func TestKernelDeep(t *testing.T) {
	f, err := New(t.TempDir(), &Config{Async: true})
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	if !f.Handled() {
		t.Skip(f.Authority())
	}
	n := f.Root()
	for i := range 60 {
		n, _, err = n.Create(fmt.Sprintf("%0200d", i), &backend.Init{Type: nfs3.TypeDir, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o755}})
		ok(t, err)
	}
	g, err := n.(*file).hold()
	ok(t, err)
	defer g.done()
	for fd, want := range map[int]bool{g.fd: true, f.top.fd: true} {
		if in, err := f.climb(fd); err != nil || in != want {
			t.Errorf("%v, %v", in, err)
		}
	}
	outside, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(outside)
	if in, err := f.climb(outside); in || err != nil {
		t.Errorf("outside: %v, %v", in, err)
	}
}
