package commitlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestAnswersOfLiar: a consumer that answers the requests of an append otherwise than they came: F is a Flush Response, A
// that of Atomic Write, and "." the next request, after which the rest is said. An append succeeds only when both of its
// requests, or in strict mode all three, were answered, each once and in order, and none before it was made.
func TestAnswersOfLiar(t *testing.T) {
	for _, c := range []struct {
		mode   commitlog.Mode
		script string
		good   int // appends that succeed
	}{
		{commitlog.WAL, ".F.A.F.A", 2},
		{commitlog.WAL, "..FA.F.A", 2},
		{commitlog.WAL, "..A", 0},
		{commitlog.WAL, "..AF", 0},
		{commitlog.WAL, "..FF", 0},
		{commitlog.WAL, "F", 0},
		{commitlog.WAL, "A", 0},
		{commitlog.WAL, "..FAF..A", 1},
		{commitlog.Strict, ".F.A.F", 1},
		{commitlog.Strict, "...FA", 0},
		{commitlog.Strict, "...FF", 0},
		{commitlog.Strict, "...FFA", 0},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			a, b := pipes()
			p := newTestProducer(t, nil)
			conn := rdmap.Client(a, p.Config(nil))
			started := make(chan error, 1)
			go func() { started <- conn.Handshake(t.Context()) }()
			peer, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, capable)
			noErr(t, errors.Join(err, <-started))
			ans := commitlog.Answer{Epoch: 1, Capacity: 4096, Mode: c.mode, Hash: commitlog.CRC32C, Persistent: true, RingSTag: 1 << 8, TailSTag: 2 << 8, HeadSTag: 3 << 8, NextSeq: 1}
			noErr(t, p.Open(conn, &ans))
			go conn.Serve()
			go answer(peer, c.script)
			if c.script[0] != '.' {
				<-conn.Done() // nobody has asked
			}
			good := 0
			for range c.good + 1 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				if _, err := p.Append(ctx, make([]byte, 100)); err == nil {
					good++
				}
				cancel()
			}
			if good != c.good {
				t.Errorf("%d appends succeeded, want %d", good, c.good)
			}
			a.Close()
			<-conn.Done()
		})
	}
}

// answer says what is in the script, and then nothing.
func answer(peer *rdmaptest.Peer, script string) {
	for _, r := range script {
		switch r {
		case 'F':
			_, _ = peer.Conn.Write(peer.Cut(peer.Untagged(byte(verbs.OpFlushResponse), 3), nil, whole(0)))
		case 'A':
			_, _ = peer.Conn.Write(peer.Cut(peer.Untagged(byte(verbs.OpAtomicWriteResponse), 3), nil, whole(0)))
		default:
			for {
				if s, _, err := peer.NextSegment(); err != nil || !s.Tagged && s.QN == 1 {
					break
				}
			}
		}
	}
	for {
		if _, _, err := peer.NextSegment(); err != nil {
			return
		}
	}
}
