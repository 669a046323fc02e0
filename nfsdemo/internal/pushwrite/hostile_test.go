package pushwrite_test

import (
	"math"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestHostile: a record that no client may write condemns the log that has it: what stands
// before is applied, it and what follows never are; files, other logs and their leases are
// as they were, also after a restart.
func TestHostile(t *testing.T) {
	for name, forge := range map[string]func(own, foreign, returned uint64) []byte{
		"foreign lease": func(_, foreign, _ uint64) []byte {
			return (&pushfile.Record{Lease: foreign, Data: []byte("EVIL")}).Append(nil)
		},
		"lease of nobody": func(own, _, _ uint64) []byte {
			return (&pushfile.Record{Lease: own + 100, Data: []byte("EVIL")}).Append(nil)
		},
		"returned lease": func(_, _, returned uint64) []byte {
			return (&pushfile.Record{Lease: returned, Data: []byte("EVIL")}).Append(nil)
		},
		"huge offset": func(own, _, _ uint64) []byte {
			return (&pushfile.Record{Lease: own, Offset: math.MaxInt64, Data: []byte("EVIL")}).Append(nil)
		},
		"wraps": func(own, _, _ uint64) []byte {
			return (&pushfile.Record{Lease: own, Offset: math.MaxUint64 - 1, Data: []byte("EVIL")}).Append(nil)
		},
		"another version": func(own, _, _ uint64) []byte {
			b := (&pushfile.Record{Lease: own, Data: []byte("EVIL")}).Append(nil)
			b[3]++
			return b
		},
		"no record": func(uint64, uint64, uint64) []byte { return []byte("EVIL") },
		"empty":     func(uint64, uint64, uint64) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			p, evil, good := w.plain(0), w.pusher("evil", 0), w.pusher("good", 0)
			f, g, r := p.create("f", 0o666), p.create("g", 0o666), p.create("r", 0o666)
			own, foreign, returned := evil.lease(f), good.lease(g), evil.lease(r)
			evil.giveBack(returned)
			evil.wrote(own, 0, "before")
			if _, err := evil.s.Append(t.Context(), forge(own, foreign, returned)); err != nil {
				t.Fatal(err)
			}
			_ = evil.write(own, 0, "EVIL") // perhaps it is condemned by now
			until(t, "condemned", func() bool { return w.pw.Stats().Condemned == 1 })
			if st := p.write(f, 6, "!"); st != nfs3.OK {
				t.Error("the file it had a lease on:", st)
			}
			p.has(f, "before!")
			p.has(r, "")
			good.wrote(foreign, 0, "good")
			p.has(g, "good")
			until(t, "its session is over", func() bool { return evil.s.Err() != nil })
			w.restart(nil)
			p.has(f, "before!")
			p.has(g, "good")
			p.has(r, "")
		})
	}
}

// TestForeignSession: only the client that has the session of a log gets leases.
func TestForeignSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, evil, good := w.plain(0), w.pusher("evil", 0), w.pusher("good", 0)
	h := p.create("f", 0o666)
	l := good.lease(h)
	if st := evil.giveBack(l); st != pushfile.StatusUnknownLease {
		t.Error("return of another's lease:", st)
	}
	a := pushfile.OpenArgs{File: h}
	var res pushfile.OpenRes
	if evil.call(pushfile.ProcOpen, a.Append(nil), res.Parse); res.Status != pushfile.StatusStaleSession {
		t.Error("open without a session:", res.Status)
	}
	good.wrote(l, 0, "mine")
	p.has(h, "mine")
}
