package rdmap

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// told is a link that remembers, for each batch, whether more follows at once.
type told struct {
	drive.Link
	mu   sync.Mutex
	more []bool
}

func (l *told) note(b *buf.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = append(l.more, b.Follows())
}

func (l *told) Write(b *buf.Batch, p drive.Patience, limit time.Duration) (bool, error) {
	l.note(b)
	return l.Link.Write(b, p, limit)
}

// TestMoreFollows: if a message has several batches, all of them but the last say that more follows. The
// batch of a whole message does not.
func TestMoreFollows(t *testing.T) {
	a, b := tcpPair(t)
	x, y := connect(t, a, b, nil, nil)
	go y.Serve()
	l := &told{Link: x.link}
	x.mu.Lock()
	x.link = l
	x.mu.Unlock()
	sink, err := y.Register(make([]byte, 4*buf.BatchOctets), region.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, buf.BatchOctets / 2, 4 * buf.BatchOctets} {
		l.mu.Lock()
		l.more = nil
		l.mu.Unlock()
		var w Waiter
		w.Reset()
		if err := x.Post([]verbs.WR{{Op: verbs.OpWrite, Body: make([]byte, n), STag: sink.STag(), Done: &w}}); err != nil {
			t.Fatal(err)
		}
		if err := x.Wait(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		last := slices.Index(l.more, false)
		if last < 0 || slices.Contains(l.more[last:], true) || (last > 0) != (n > buf.BatchOctets) {
			t.Errorf("%d octets: %v", n, l.more)
		}
		l.mu.Unlock()
	}
}
