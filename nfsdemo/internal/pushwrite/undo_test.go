package pushwrite_test

import (
	"os"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// crash starts the server again with the logs as they are now, as if it had been killed: what
// it does on its way out does not count.
func (w *world) crash() {
	w.t.Helper()
	now := w.t.TempDir()
	if err := os.CopyFS(now, os.DirFS(w.cfg.Dir)); err != nil {
		w.t.Fatal(err)
	}
	w.stop()
	w.cfg.Dir = now
	w.start(nil)
}

// TestNotUndone: records that are applied again after a crash never overwrite a later change: they are
// released for good before a change of the same file runs, by a call or by another log.
func TestNotUndone(t *testing.T) {
	for name, x := range map[string]struct {
		change func(w *world, p *plain, h nfs3.FileHandle)
		want   string
	}{
		"write": {func(_ *world, p *plain, h nfs3.FileHandle) {
			if st := p.write(h, 1, "XY"); st != nfs3.OK {
				p.t.Error(st)
			}
		}, "aXYdefgh"},
		"truncate": {func(_ *world, p *plain, h nfs3.FileHandle) {
			if st := p.truncate(h, 2); st != nfs3.OK {
				p.t.Error(st)
			}
		}, "ab"},
		"another log": {func(w *world, _ *plain, h nfs3.FileHandle) {
			c := w.pusher("other", 0)
			var l uint64
			until(c.t, "a lease", func() bool { l = c.open(h, 0).Lease; return l != 0 })
			c.wrote(l, 1, "XY")
		}, "aXYdefgh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			p, c := w.plain(0), w.pusher("log", 0)
			h := p.create("f", 0o644)
			l := c.lease(h)
			c.wrote(l, 0, "abcd")
			c.wrote(l, 4, "efgh")
			x.change(w, p, h)
			w.crash()
			p.has(h, x.want)
			w.crash() // nor is it by what the second start did
			p.has(h, x.want)
		})
	}
}
