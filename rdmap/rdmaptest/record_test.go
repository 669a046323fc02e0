package rdmaptest_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestRecordTimes: events of both directions are in order, with times and ends, and hold copies.
func TestRecordTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		rec := &rdmaptest.Record{Conn: b}
		start := time.Now()
		p := []byte("question")
		_, _ = rec.Write(p)
		clear(p)
		time.Sleep(time.Second)
		_, _ = a.Write([]byte("answer"))
		_ = a.Close()
		_, _ = rec.Read(make([]byte, 10))
		_, _ = rec.Read(make([]byte, 10))
		want := []rdmaptest.Event{
			{start, true, []byte("question"), nil},
			{start.Add(time.Second), false, []byte("answer"), nil},
			{start.Add(time.Second), false, nil, io.EOF},
		}
		got := rec.Events()
		if len(got) != len(want) {
			t.Fatalf("%d events: %v", len(got), got)
		}
		for i, w := range want {
			if g := got[i]; !g.Time.Equal(w.Time) || g.Out != w.Out || string(g.Data) != string(w.Data) || !errors.Is(g.Err, w.Err) {
				t.Errorf("event %d: %v, want %v", i, g, w)
			}
		}
		if string(rec.In()) != "answer" || string(rec.Out()) != "question" {
			t.Errorf("in %q, out %q", rec.In(), rec.Out())
		}
	})
}
