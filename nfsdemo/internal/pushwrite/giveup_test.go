package pushwrite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestGiveUpCondemned: a condemned log is told, with its file and what to do, also after a restart;
// it takes room until it is given up, and what it held never comes back.
func TestGiveUpCondemned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, evil := w.plain(0), w.pusher("evil", 0)
	h := p.create("f", 0o666)
	own := evil.lease(h)
	evil.wrote(own, 0, "before")
	forged := pushfile.Record{Lease: own + 100, Data: []byte("EVIL")}
	if _, err := evil.s.Append(t.Context(), forged.Append(nil)); err != nil {
		t.Fatal(err)
	}
	condemned := func() {
		t.Helper()
		until(t, "condemned", func() bool { return len(w.pw.Stats().NowCondemned) == 1 })
		b := w.pw.Stats().NowCondemned[0]
		if b.Log != "evil" || b.Record != 2 || b.Err == nil || b.File != filepath.Join(w.cfg.Dir, "evil.log") ||
			!strings.Contains(b.Remedy, "log push "+w.cfg.Dir+" --give-up evil") {
			t.Errorf("%+v", b)
		}
		if st := w.pw.Stats(); len(st.Now) != 0 || st.Logs.Logs != 1 || st.Logs.Octets == 0 {
			t.Errorf("%+v", st)
		}
	}
	condemned()
	if err := pushwrite.GiveUp(w.cfg.Dir, "evil"); !errors.Is(err, pmem.ErrLocked) {
		t.Error("while the server runs:", err)
	}
	w.restart(nil)
	condemned()
	w.stop()
	for _, name := range []string{"good", "../../evil", "", "evil.log"} {
		if err := pushwrite.GiveUp(w.cfg.Dir, name); !errors.Is(err, pushwrite.ErrNoLog) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := pushwrite.GiveUp(w.cfg.Dir, "evil"); err != nil {
		t.Fatal(err)
	}
	w.start(nil)
	if st := w.pw.Stats(); len(st.NowCondemned) != 0 || st.Logs.Logs != 0 || st.Logs.Octets != 0 || !w.pw.Idle() {
		t.Errorf("%+v", st)
	}
	p.has(h, "before")
	again := w.pusher("evil", 0) // the name is free
	again.wrote(again.lease(h), 6, "!")
	p.has(h, "before!")
}

// TestGiveUpDamaged: the files of a log that cannot be read answer NFS3ERR_IO, and the server says
// which log, and what to do, until it is given up. Nothing of it is taken for good.
func TestGiveUpDamaged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what   string
		octet  byte
		at     []int64
		remedy string
	}{
		{"tail word", 0x55, []int64{8192}, "nfsdemo log mend "},
		{"version", 3, []int64{11, 4096 + 11}, "until a server of that version"},
		{"headers", 0x55, []int64{60, 4096 + 60}, "restore the log from a copy"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			w := newWorld(t, nil)
			p, c := w.plain(0), w.pusher("log", 0)
			h, other := p.create("f", 0o644), p.create("g", 0o644)
			write, _ := full(nfs3.ErrNoSpc)
			w.files.fail(write, nil)
			c.wrote(c.lease(h), 0, "acknowledged")
			w.stop()
			path := filepath.Join(w.cfg.Dir, "log.log")
			for _, at := range tt.at {
				overwrite(t, path, []byte{tt.octet}, at)
			}
			w.start(nil)
			if _, st := p.read(h); st != nfs3.ErrIO {
				t.Error("read:", st)
			}
			p.has(other, "")
			st := w.pw.Stats()
			if len(st.Now) != 1 || st.Now[0].File != path || !strings.Contains(st.Now[0].Remedy, tt.remedy) ||
				!strings.Contains(st.Now[0].Remedy, "log push "+w.cfg.Dir+" --give-up log") {
				t.Errorf("%+v", st.Now)
			}
			w.stop()
			if err := pushwrite.GiveUp(w.cfg.Dir, "log"); err != nil {
				t.Fatal(err)
			}
			w.start(nil)
			p.has(h, "")
			if st := w.pw.Stats(); len(st.Now) != 0 || !w.pw.Idle() {
				t.Errorf("%+v", st)
			}
		})
	}
}

// overwrite overwrites octets of a file.
func overwrite(t *testing.T, path string, b []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestMended: a log whose tail word is damaged is shown, and once it is mended, what it has
// acknowledged is applied.
func TestMended(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	write, _ := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	l := c.lease(h)
	c.wrote(l, 0, "acknow")
	c.wrote(l, 6, "ledged")
	w.stop()
	path := filepath.Join(w.cfg.Dir, "log.log")
	overwrite(t, path, []byte{0, 0, 0, 0, 0, 0, 0, 7}, 8192)
	n := 0
	err := pushwrite.Inspect(w.cfg.Dir, pmem.File, func(*pushwrite.Waiting) error { n++; return nil })
	if n != 2 || !commitlog.TailError(err) {
		t.Errorf("%d records, %v", n, err)
	}
	w.start(nil)
	if _, st := p.read(h); st != nfs3.ErrIO || !strings.Contains(w.pw.Stats().Now[0].Remedy, "nfsdemo log mend "+path) {
		t.Errorf("read: %v, %+v", st, w.pw.Stats().Now)
	}
	w.stop()
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = commitlog.Mend(mem)
	if err := errors.Join(err, mem.Close()); err != nil {
		t.Fatal(err)
	}
	w.start(nil)
	p.has(h, "acknowledged")
}

// TestGiveUpTwice: a GiveUp that a crash has interrupted is done again.
func TestGiveUpTwice(t *testing.T) {
	w := newWorld(t, nil)
	w.pusher("log", 0)
	w.stop()
	if err := os.Remove(filepath.Join(w.cfg.Dir, "log.owner")); err != nil {
		t.Fatal(err)
	}
	if err := pushwrite.GiveUp(w.cfg.Dir, "log"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.cfg.Dir, "log.log")); !errors.Is(err, os.ErrNotExist) {
		t.Error("its octets are still there:", err)
	}
}
