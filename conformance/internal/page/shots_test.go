package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// TestShots draws captures of other implementations, for the docs and for inspection.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("without -shots")
	}
	b := newBrowser(t)
	for _, name := range []string{"b-nfs3-ops", "d-terminate", "d-mpa-bad", "c-nfs41"} {
		f, err := os.Open("../../testdata/pcaps/" + name + ".pcap")
		if err != nil {
			t.Fatal(err)
		}
		p, j := New(name+".pcap", nil), judge.NewBuilder(nil)
		for ev, err := range decode.Events(f, nil) {
			if err != nil {
				t.Fatal(err)
			}
			p.Event(ev)
			j.Event(ev)
		}
		f.Close()
		b.loadReport(p, j.Report())
		b.screenshot(filepath.Join(*shots, name+".png"))
		b.keys("n", "Enter")
		b.screenshot(filepath.Join(*shots, name+"-open.png"))
		b.keys("t")
		b.screenshot(filepath.Join(*shots, name+"-dark.png"))
	}
}
