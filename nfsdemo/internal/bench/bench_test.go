package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

func serve(t *testing.T) Peer {
	t.Helper()
	p, stop, err := Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Every case runs, and has a bound, but that of plain TCP.
func TestPush(t *testing.T) {
	p := serve(t)
	results, err := Push(p, &Options{Rounds: 1, Writes: 10, Rate: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		r := &results[i]
		if len(r.Base) != 1 || len(r.Ours) != 1 || r.Gate == 0 != strings.Contains(r.Name, "plain TCP") {
			t.Errorf("%+v", r)
		}
		for _, v := range append(r.Base, r.Ours...) {
			if v < 0 || v == 0 && r.Unit != "/s" { // on a busy machine nobody is through in a millisecond
				t.Errorf("%s: %v", r.Name, v)
			}
		}
	}
	if len(results) != 9 {
		t.Errorf("%d cases", len(results))
	}
	if _, err := Push(p, &Options{Only: "none such"}); err == nil {
		t.Error("no cases, but no error either")
	}
}

// What is pushed is in the file when it is applied, and the server tells what it cost.
func TestApplied(t *testing.T) {
	p := serve(t)
	for _, at := range []Place{p.Sim, p.File} {
		w, err := newLogs(at.Push).byPush(true)(0)
		if err != nil {
			t.Fatal(err)
		}
		want := []byte("durable before it is applied")
		if err := errors.Join(w.write(want), w.apply()); err != nil {
			t.Fatal(err)
		}
		w.close()
		if cpu, err := serverCPU(at); err != nil || cpu <= 0 {
			t.Fatal(cpu, err)
		}
		c, err := dial(t.Context(), at.NFS, nil) // the server without logs
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, err := c.Child(t.Context(), c.Root(), "push.0")
		if err != nil {
			t.Fatal(err)
		}
		got := make(nfsclient.Memory, len(want))
		if _, err := c.ReadTo(t.Context(), n, got, nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q %v", got, err)
		}
	}
}

// A WRITE is pulled or comes inline, as the name of its case says.
func TestHow(t *testing.T) {
	p := serve(t)
	for name, test := range map[string]struct {
		d     dialer
		reads uint64
	}{
		"pulled": {byWrite(p.Sim.NFS, pulledConfig(), true), payload},
		"inline": {byWrite(p.Sim.NFS, nil, true), 0},
	} {
		w, err := test.d(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write(make([]byte, payload)); err != nil {
			t.Fatal(err)
		}
		if got := w.(nfsWriter).c.Stats().OctetsRead; got != test.reads {
			t.Errorf("%s: %d octets pulled, want %d", name, got, test.reads)
		}
		w.close()
	}
}

// Each size is measured in each way.
func TestPlot(t *testing.T) {
	c, err := Plot(serve(t), &Options{Rounds: 1, Writes: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.Lines {
		if len(l.Y) != len(c.X) {
			t.Errorf("%s: %v", l.Name, l.Y)
		}
	}
}
