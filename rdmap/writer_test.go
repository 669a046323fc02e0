package rdmap_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap"
)

// TestWriter: whoever waits for the writer to rest is told when nobody writes and no input is being handled.
func TestWriter(t *testing.T) {
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	for name, steps := range map[string][]func(*rdmap.Writer){
		"a poster":            {(*rdmap.Writer).Begin, (*rdmap.Writer).End},
		"a full socket":       {(*rdmap.Writer).Begin, (*rdmap.Writer).Block, (*rdmap.Writer).End},
		"input":               {(*rdmap.Writer).Cork, (*rdmap.Writer).Uncork, (*rdmap.Writer).Rested},
		"input with output":   {(*rdmap.Writer).Cork, (*rdmap.Writer).Uncork, (*rdmap.Writer).Begin, (*rdmap.Writer).End},
		"a poster, and input": {(*rdmap.Writer).Begin, (*rdmap.Writer).Cork, (*rdmap.Writer).End, (*rdmap.Writer).Uncork, (*rdmap.Writer).Rested},
	} {
		var w rdmap.Writer
		if !w.Rests() || w.Rest() != nil {
			t.Fatalf("%s: a new writer does not rest", name)
		}
		var rest <-chan struct{}
		for i, step := range steps {
			step(&w)
			if last := i == len(steps)-1; rest != nil && closed(rest) != last {
				t.Errorf("%s, step %d: rests %v", name, i, w.Rests())
			}
			if rest == nil {
				rest = w.Rest()
			}
		}
		if w.Rest() != nil || !w.Idle() || w.Corked() {
			t.Errorf("%s: it does not rest at the end", name)
		}
	}
}
