package rdmap

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// insatiable is a link on which every attempt to write makes somebody post more.
type insatiable struct {
	drive.Link
	c     *Conn
	tries atomic.Int32
}

func (l *insatiable) Write(b *buf.Batch, p drive.Patience, limit time.Duration) (bool, error) {
	if p != drive.Always && l.tries.Add(1) < 100 {
		_ = l.c.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("more")}})
	}
	return l.Link.Write(b, p, limit)
}

// TestFlushTurn: what others post in the meantime detains neither a poster nor a reader.
func TestFlushTurn(t *testing.T) {
	a, b := tcpPair(t)
	x, y := connect(t, a, b, nil, &Config{Handler: echoer{}})
	go y.Serve()
	l := &insatiable{Link: x.link, c: x}
	x.mu.Lock()
	x.link = l
	x.mu.Unlock()
	if err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("one")}}); err != nil {
		t.Fatal(err)
	}
	if n := l.tries.Load(); n > flushTurn {
		t.Errorf("the poster wrote %d batches", n)
	}
	for quiet := false; !quiet; time.Sleep(time.Millisecond) {
		x.mu.Lock()
		quiet = x.writer.Idle()
		x.mu.Unlock()
	}
	l.tries.Store(0)
	x.mu.Lock()
	x.writer.Cork() // the reader is handling what it has read
	x.mu.Unlock()
	_ = x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("two")}})
	x.endBurst()
	if n := l.tries.Load(); n == 0 || n > flushTurn {
		t.Errorf("the reader wrote %d batches", n)
	}
}
