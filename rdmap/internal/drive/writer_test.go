package drive_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
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
	for name, steps := range map[string][]func(*drive.Writer){
		"a poster":            {(*drive.Writer).Begin, (*drive.Writer).End},
		"a full socket":       {(*drive.Writer).Begin, (*drive.Writer).Block, (*drive.Writer).End},
		"input":               {(*drive.Writer).Cork, (*drive.Writer).Uncork, (*drive.Writer).Rested},
		"input with output":   {(*drive.Writer).Cork, (*drive.Writer).Uncork, (*drive.Writer).Begin, (*drive.Writer).End},
		"a poster, and input": {(*drive.Writer).Begin, (*drive.Writer).Cork, (*drive.Writer).End, (*drive.Writer).Uncork, (*drive.Writer).Rested},
	} {
		var w drive.Writer
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
