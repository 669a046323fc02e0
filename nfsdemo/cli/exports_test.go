package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// client mounts an export. It does not wait for one that is away.
func client(t *testing.T, s *service, path string) (*nfsclient.Client, error) {
	t.Helper()
	u, err := nfsclient.ParseURL("nfs+rdma://" + addrOf(s.rdma) + path)
	check(t, err)
	c, err := nfsclient.Dial(t.Context(), u, &nfsclient.Config{Jukebox: -1})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() }) // nothing is open
	}
	return c, err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestExportsStand: what stands at the path is served, and nothing else. A directory that is missing keeps no other from
// being served, and is served as soon as it is there; where another one takes its place, that is served.
func TestExportsStand(t *testing.T) {
	d := t.TempDir()
	a, b := filepath.Join(d, "a"), filepath.Join(d, "b")
	check(t, os.Mkdir(a, 0o700))
	s := started(t, &serviceConfig{
		exports: append(one(b), one(a)...), rdma: "127.0.0.1:0", status: "127.0.0.1:0", config: &transport.Config{},
	})
	if why := string(get(t, "http://"+s.status.addr()+"/readyz", http.StatusServiceUnavailable)); !strings.Contains(why, b) || strings.Contains(why, a+" ") {
		t.Error(why)
	}
	if _, err := client(t, s, b); err == nil || !strings.Contains(err.Error(), "MNT3ERR_IO") {
		t.Errorf("a mount of one that is away: %v", err)
	}
	c, err := client(t, s, a)
	check(t, err)
	old, err := c.Mkdir(t.Context(), c.Root(), "old", 0o700)
	check(t, err)

	check(t, os.Mkdir(b, 0o700))
	settled(t, s, 0)
	_, err = client(t, s, b)
	check(t, err)

	check(t, os.Rename(a, a+".old"))
	settled(t, s, 1)
	if err := c.Refresh(t.Context(), c.Root()); !errors.Is(err, nfs3.ErrJukebox) {
		t.Errorf("while nothing stands there: %v", err)
	}
	check(t, os.Mkdir(a, 0o700))
	settled(t, s, 0)
	for _, dir := range []*nfsclient.Node{c.Root(), old} {
		if _, err := c.Mkdir(t.Context(), dir, "x", 0o700); !errors.Is(err, nfs3.ErrStale) {
			t.Errorf("what stood there before: %v", err)
		}
	}
	c, err = client(t, s, a)
	check(t, err)
	_, err = c.Mkdir(t.Context(), c.Root(), "new", 0o700)
	check(t, err)
	if _, err := os.Stat(a + "/new"); err != nil {
		t.Error(err)
	}
	check(t, os.Rename(a, a+".new"))
	check(t, os.Rename(a+".old", a))
	settled(t, s, 0)
	for err = nfs3.ErrStale; errors.Is(err, nfs3.ErrStale) || errors.Is(err, nfs3.ErrJukebox); { // until the look at it
		s.set.look()
		err = c.Refresh(t.Context(), old)
	}
	check(t, err) // it is the same as before
}

// TestExportsNone: a server of which nothing can be served does not start, unless something may be mounted later.
func TestExportsNone(t *testing.T) {
	at := filepath.Join(t.TempDir(), "none")
	cfg := &serviceConfig{exports: one(at), rdma: "127.0.0.1:0", config: &transport.Config{}}
	if s, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), at+": no such directory") {
		t.Error(err)
		if err == nil {
			check(t, s.stop(t.Context()))
		}
	}
	cfg.exports = []exports.Export{{Export: server.Export{Path: at}, Mountpoint: at}}
	if s := started(t, cfg); len(s.set.away()) != 1 {
		t.Error(s.set.away())
	}
}

// TestHangingExport: an export that does not answer keeps no other one from being served, and is served when it does.
func TestHangingExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		s := &exportSet{make: func(path string) (backend.FS, error) {
			if path != "/other" {
				<-answers
			}
			return mem.New(nil), nil
		}}
		var served []server.Export
		check(t, s.serveBy(func(list []server.Export) error { served = list; return nil }))
		check(t, s.load(one("/first"))) // it hangs before the other one is asked
		check(t, s.load(append(one("/hangs"), one("/other")...)))
		if away := s.away(); len(away) != 1 || away[0].Export != "/hangs" || served[0].FS != nil || served[1].FS == nil {
			t.Errorf("served %+v, away %+v", served, away)
		}
		close(answers)
		time.Sleep(2 * checkEvery)
		if away := s.away(); len(away) != 0 || served[0].FS == nil {
			t.Errorf("later: served %+v, away %+v", served, away)
		}
		check(t, s.close())
	})
}
