package rdmap_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// told is a link that remembers, for each batch, whether more follows at once.
type told struct {
	rdmap.Link
	mu   sync.Mutex
	more []bool
}

func (l *told) note(b *buf.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = append(l.more, b.Follows())
}

func (l *told) Write(b *buf.Batch, p rdmap.Patience, limit time.Duration) (bool, error) {
	l.note(b)
	return l.Link.Write(b, p, limit)
}

// TestMoreFollows: if a message has several batches, all of them but the last say that more follows. The
// batch of a whole message does not.
func TestMoreFollows(t *testing.T) {
	a, b := TcpPair(t)
	x, y := rdmaptest.Connect(t, a, b, nil, nil)
	go y.Serve()
	l := &told{Link: x.Link()}
	x.SetLink(l)
	sink := must(y.Register(make([]byte, 4*buf.BatchOctets), region.RemoteWrite))(t)
	for _, n := range []int{100, buf.BatchOctets / 2, 4 * buf.BatchOctets} {
		l.mu.Lock()
		l.more = nil
		l.mu.Unlock()
		var w rdmap.Waiter
		w.Reset()
		noErr(t, x.Post([]verbs.WR{{Op: verbs.OpWrite, Body: make([]byte, n), STag: sink.STag(), Done: &w}}))
		noErr(t, x.Wait(t.Context(), &w))
		l.mu.Lock()
		last := slices.Index(l.more, false)
		if last < 0 || slices.Contains(l.more[last:], true) || (last > 0) != (n > buf.BatchOctets) {
			t.Errorf("%d octets: %v", n, l.more)
		}
		l.mu.Unlock()
	}
}

// insatiable is a link on which every attempt to write makes somebody post more.
type insatiable struct {
	rdmap.Link
	c     *rdmap.Conn
	tries atomic.Int32
}

func (l *insatiable) Write(b *buf.Batch, p rdmap.Patience, limit time.Duration) (bool, error) {
	if p != rdmap.Always && l.tries.Add(1) < 100 {
		_ = l.c.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("more")}})
	}
	return l.Link.Write(b, p, limit)
}

// TestFlushTurn: what others post in the meantime detains neither a poster nor a reader.
func TestFlushTurn(t *testing.T) {
	a, b := TcpPair(t)
	x, y := rdmaptest.Connect(t, a, b, nil, &rdmap.Config{Handler: Echoer{}})
	go y.Serve()
	l := &insatiable{Link: x.Link(), c: x}
	x.SetLink(l)
	noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("one")}}))
	if n := l.tries.Load(); n > rdmap.FlushTurn {
		t.Errorf("the poster wrote %d batches", n)
	}
	for quiet := false; !quiet; time.Sleep(time.Millisecond) {
		x.Mu().Lock()
		quiet = x.Writer().Idle()
		x.Mu().Unlock()
	}
	l.tries.Store(0)
	x.Mu().Lock()
	x.Writer().Cork() // the reader is handling what it has read
	x.Mu().Unlock()
	_ = x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("two")}})
	x.Uncork()
	if n := l.tries.Load(); n == 0 || n > rdmap.FlushTurn {
		t.Errorf("the reader wrote %d batches", n)
	}
}
