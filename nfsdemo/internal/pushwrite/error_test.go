package pushwrite_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// full has a Files fail with an error from its n-th write on, until it is switched off.
func full(err error) (write func(*server.Grant, []byte, uint64) error, off func()) {
	var on atomic.Bool
	on.Store(true)
	return func(*server.Grant, []byte, uint64) error {
		if on.Load() {
			return err
		}
		return nil
	}, func() { on.Store(false) }
}

// TestApplyError: a record that cannot be applied stays: COMMIT and READ fail with its error,
// STATUS and the counters name it, no lease is granted; once there is room it is applied,
// and nothing is lost.
func TestApplyError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h, other := p.create("f", 0o644), p.create("g", 0o644)
	l := c.lease(h)
	c.wrote(l, 0, "one")
	p.has(h, "one")
	write, off := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	c.wrote(l, 3, "two")
	if st := p.commit(h); st != nfs3.ErrIO { // COMMIT may not answer NOSPC
		t.Error("commit:", st)
	}
	if _, st := p.read(h); st != nfs3.ErrIO {
		t.Error("read:", st)
	}
	st := c.status().State
	if st.Applied != 1 || st.Error != nfs3.ErrNoSpc || st.Record != 2 || st.Lease != l || st.Text == "" {
		t.Errorf("%+v", st)
	}
	if st := c.open(other, 0).Status; st != pushfile.StatusBlocked {
		t.Error("open:", st)
	}
	p.has(other, "") // has nothing to do with it
	if now := w.pw.Stats().Now; len(now) != 1 || now[0].Log != "log" || now[0].Record != 2 || !errors.Is(now[0].Err, nfs3.ErrNoSpc) {
		t.Errorf("%+v", now)
	}
	c.wrote(l, 6, "three") // the log continues
	if st := p.write(h, 0, "X"); st != nfs3.ErrNoSpc {
		t.Error("write:", st)
	}
	off()
	until(t, "applied", func() bool { return p.commit(h) == nfs3.OK })
	if st := c.status().State; st.Applied != 3 || st.Error != nfs3.OK {
		t.Errorf("%+v", st)
	}
	p.has(h, "onetwothree")
}

// TestSyncError: a file that cannot be made durable keeps its records, and they are written
// again.
func TestSyncError(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	l := c.lease(h)
	var writes, syncs atomic.Int32
	w.files.fail(func(*server.Grant, []byte, uint64) error { writes.Add(1); return nil }, func(*server.Grant) error {
		if syncs.Add(1) == 1 {
			return nfs3.ErrIO
		}
		return nil
	})
	c.wrote(l, 0, "data")
	until(t, "durable", func() bool { return p.commit(h) == nfs3.OK })
	if syncs.Load() < 2 || writes.Load() < 2 {
		t.Errorf("%d writes, %d syncs", writes.Load(), syncs.Load())
	}
	p.has(h, "data")
}

// TestRemovedLocally: somebody at the server has removed the file, past NFS.
func TestRemovedLocally(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	l := c.lease(h)
	if err := w.fs.Root().Remove("f"); err != nil {
		t.Fatal(err)
	}
	c.wrote(l, 0, "lost?")
	if st := p.commit(h); st != nfs3.ErrStale {
		t.Error("commit:", st)
	}
	if st := c.status().State; st.Error != nfs3.ErrStale || st.Record != 1 {
		t.Errorf("%+v", st)
	}
}

// TestRoom: room is set aside among leases, and not more than there is.
func TestRoom(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	f, g := p.create("f", 0o644), p.create("g", 0o644)
	u, err := w.fs.Usage()
	if err != nil {
		t.Fatal(err)
	}
	most := u.AvailBytes - 100
	a := c.open(f, most)
	if a.Status != pushfile.StatusOK || a.Reserved != most {
		t.Fatalf("%+v", a)
	}
	if st := c.open(g, 101).Status; st != pushfile.StatusNoSpace {
		t.Error("more than there is:", st)
	}
	if st := c.open(g, 100).Status; st != pushfile.StatusOK {
		t.Error("read of what is left:", st)
	}
	c.giveBack(a.Lease)
	until(t, "room again", func() bool { return c.open(g, most).Status == pushfile.StatusOK })
}

// TestRights: a caller that may not write gets no lease, and the reason.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.plain(0)
	h := p.create("f", 0o600)
	c := w.pusher("log", 1000)
	for name, r := range map[string]struct {
		h    nfs3.FileHandle
		want pushfile.Status
	}{
		"of another user": {h, pushfile.StatusRefused},
		"a directory":     {p.root(), pushfile.StatusBadFile},
		"of nobody":       {nfs3.FileHandle("none"), pushfile.StatusBadFile},
		"gone":            {append(nfs3.FileHandle{0xff, 0xff, 0xff, 0xff}, h[4:]...), pushfile.StatusStale},
	} {
		if st := c.open(r.h, 0).Status; st != r.want {
			t.Errorf("%s: %v", name, st)
		}
	}
	// A caller that may not change a file does not disturb its writer.
	q, root := w.plain(1000), w.pusher("root", 0)
	l := root.lease(h)
	if st := q.write(h, 0, "x"); st != nfs3.ErrAcces {
		t.Error("write:", st)
	}
	if st := q.truncate(h, 0); st != nfs3.ErrAcces {
		t.Error("setattr:", st)
	}
	if w.pw.Stats().Recalls != 0 || root.lease(h) != l {
		t.Errorf("%+v", w.pw.Stats())
	}
}
