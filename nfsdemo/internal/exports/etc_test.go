package exports_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// TestEtc: what nfs-utils understands, as far as NFSv3 has it; the first client of each kind counts, and kinds in the order
// host, network, pattern, netgroup, everybody.
func TestEtc(t *testing.T) {
	read := func(text string) string {
		name := filepath.Join(t.TempDir(), "exports")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := exports.LoadEtc(name, exports.Defaults())
		if err != nil {
			return strings.ReplaceAll(err.Error(), name, "F")
		}
		var b strings.Builder
		for _, e := range list {
			fmt.Fprintf(&b, "%s", e.Path)
			if e.FSID+e.Mountpoint != "" {
				fmt.Fprintf(&b, " fsid=%s mp=%s", e.FSID, e.Mountpoint)
			}
			for _, c := range e.Clients {
				mode := map[bool]string{false: "rw", true: "ro"}[c.ReadOnly]
				if !c.Secure {
					mode += ",insecure"
				}
				if c.Squash != server.SquashRoot || c.AnonUID != 0 {
					mode += fmt.Sprintf(",%v:%d", c.Squash, c.AnonUID)
				}
				fmt.Fprintf(&b, " %v%v(%s)", c.Nets, c.Names, mode)
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	for _, tt := range []struct{ text, want string }{
		{"/srv", "/srv [][](ro)\n"},
		{"/srv *(rw,sync,no_subtree_check)", "/srv [][](rw)\n"},
		{"/srv (rw)\n", "/srv [][](rw)\n"},
		{"# nothing\n\n/a h(rw) # c\n/b\th", "/a [][h](rw)\n/b [][h](ro)\n"},
		{"/a h(rw) \\\n  192.0.2.0/24(ro) \\\n\tg(rw)\n/b h", "/a [][h](rw) [][g](rw) [192.0.2.0/24][](ro)\n/b [][h](ro)\n"},
		{"\"/with blank\" h\n/oct\\040al h", "/with blank [][h](ro)\n/oct al [][h](ro)\n"},
		{
			"/s *(ro) @lab(rw) *.b.c(rw) 192.0.2.0/255.255.255.0(rw) h(rw) 2001:db8::1(rw) x*(ro)",
			"/s [][h](rw) [2001:db8::1/128][](rw) [192.0.2.0/24][](rw) [][*.b.c](rw) [][x*](ro) [][@lab](rw) [][](ro)\n",
		},
		{"/s -rw,insecure a b(ro) -ro c", "/s [][a](rw,insecure) [][b](ro,insecure) [][c](ro)\n"},
		{"/s a(rw)\n/s b(ro,all_squash,anonuid=7)", "/s [][a](rw) [][b](ro,all_squash:7)\n"},
		{"/s a(fsid=1,mp) b(fsid=1,rw)", "/s fsid=1 mp=/s [][a](ro) [][b](rw)\n"},
		{"/s a(rw,no_root_squash)", "/s [][a](rw,no_root_squash:0)\n"},
		{"", "F: exports nothing"},
		{"\nsrv h", "F:2: \"srv\" is not an absolute path"},
		{"/s h (rw", "F:1: \"(rw\": want a client, with options in parentheses behind it, without a blank between them"},
		{"/s h(rw)x", "F:1: \"h(rw)x\": want a client, with options in parentheses behind it, without a blank between them"},
		{"/s a(crossmnt) b(nocrossmnt)", "F:1: fsid, mountpoint, crossmnt and nohide are those of the directory: say them the same for all its clients"},
		{"/s h(rww)", "F:1: \"rww\" is no option: want one of exports(5), as ro, no_root_squash or anonuid=N"},
		{"/s 192.0.2.0/40", "F:1: \"192.0.2.0/40\": want a network, as 192.0.2.0/24"},
		{"/s a(fsid=1) b(fsid=2)", "F:1: fsid, mountpoint, crossmnt and nohide are those of the directory: say them the same for all its clients"},
		{"\"/s h", "F:1: a quote is not closed: \"/s h"},
		{"/s\\9 h", "F:1: \"\\\\9 h\": want three octal digits behind a backslash"},
	} {
		if got := read(tt.text); got != tt.want {
			t.Errorf("%q:\n%swant\n%s", tt.text, got, tt.want)
		}
	}
}

// TestNames: nobody is believed for a name that does not lead back, or while nobody has answered; what was answered once
// stays while the directory is away.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := &net.DNSError{IsNotFound: true}
		var down atomic.Bool
		var asked atomic.Int32
		n := &exports.Names{
			Addr: func(ctx context.Context, addr string) ([]string, error) {
				if asked.Add(1); down.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				switch addr {
				case "192.0.2.1":
					return []string{"One.Example.com.", "liar.example.org."}, nil
				case "192.0.2.2":
					return []string{"one.example.com."}, nil // and it is not
				}
				return nil, none
			},
			Host: func(_ context.Context, name string) ([]netip.Addr, error) {
				switch {
				case down.Load():
					return nil, errors.New("no server answers")
				case strings.EqualFold(strings.TrimSuffix(name, "."), "one.example.com"):
					return []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1")}, nil
				}
				return nil, none
			},
			Group: func(context.Context, string) ([]string, error) { return []string{"ONE.example.com"}, nil },
		}
		try := func(ctx context.Context, name, addr, want string) {
			t.Helper()
			has, err := n.Has(ctx, name, netip.MustParseAddr(addr))
			if got := fmt.Sprint(has, err); got != want && !(want == "unknown" && !has && errors.Is(err, exports.ErrUnknown)) {
				t.Errorf("%s %s: %s, want %s", name, addr, got, want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		try(ended, "*.example.com", "192.0.2.1", "unknown")
		synctest.Wait()
		try(ended, "*.example.com", "192.0.2.1", "true <nil>")
		for name, want := range map[string]string{
			"one.example.com": "true", "One.example.com.": "true", "?ne.example.[a-c]om": "true", "@lab": "true", "*": "true",
			"*.example.org": "false", "liar.example.org": "false", "example.com": "false",
		} {
			try(t.Context(), name, "192.0.2.1", want+" <nil>")
			try(t.Context(), name, "192.0.2.2", "false <nil>")
		}
		before := asked.Load()
		for range 100 {
			try(t.Context(), "*.example.com", "192.0.2.1", "true <nil>")
		}
		if n := asked.Load() - before; n != 0 {
			t.Errorf("%d questions for what is known", n)
		}
		down.Store(true)
		time.Sleep(time.Hour)
		try(ended, "*.example.com", "192.0.2.1", "true <nil>")
		try(ended, "*.example.com", "192.0.2.9", "unknown")
		try(t.Context(), "*.example.com", "192.0.2.9", "unknown")
		time.Sleep(time.Minute)
		for i := range 5000 { // more than are kept
			try(ended, "*.example.com", fmt.Sprintf("198.51.%d.%d", 1+i>>8, i&255), "unknown")
		}
		down.Store(false)
		time.Sleep(time.Hour)
		try(t.Context(), "*.example.com", "192.0.2.1", "true <nil>")
		time.Sleep(time.Hour) // the questions end
	})
}
