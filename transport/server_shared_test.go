package transport_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestSilentStreams: neither a connection of no protocol nor half a record is waited
// for without end; a pause between two records is nobody's business (ADVERSARY row 20).
func TestSilentStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &transport.Server{Handler: newEcho(), Config: unwatched(testConfig())}
		defer s.Close()
		call := rpcCall(1, procNull)
		whole := markedRecord(call)
		for _, c := range []struct {
			name  string
			send  []byte
			pause time.Duration
			limit time.Duration
			drip  bool
		}{
			{"nothing", nil, 0, 10 * time.Second, false},
			{"half a mark", whole[:2], 0, 10 * time.Second, false},
			{"half a record", whole[:20], 0, stream.Patience, false},
			{"half the next record", append(slices.Clip(whole), whole[:3]...), 0, stream.Patience, false},
			{"octet by octet", append(xdr.AppendRecordMark(nil, 5000, true), call...), 0, stream.Patience, true},
			{"half a record after a pause", whole[:20], time.Hour, stream.Patience, false},
		} {
			a, b := rdmaptest.Pipe()
			served := make(chan error, 1)
			go func() { served <- s.ServeSharedConn(b) }()
			if c.pause > 0 {
				for range 2 { // a record in two pieces, then a pause
					a.Write(whole[:9])
					synctest.Wait()
					a.Write(whole[9:])
					time.Sleep(c.pause)
				}
			}
			start := time.Now()
			a.Write(c.send)
			if c.drip {
				go func() { // an octet every 10 s keeps nobody
					for _, err := a.Write(whole[20:21]); err == nil; _, err = a.Write(whole[20:21]) {
						time.Sleep(10 * time.Second)
					}
				}()
			}
			if err := <-served; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", c.name, err)
			}
			if d := time.Since(start); d != c.limit {
				t.Errorf("%s: given up after %v, want %v", c.name, d, c.limit)
			}
			a.Close()
		}
	})
}

// TestRecordInFragments: a record whose first fragment is there, and whose others bring an octet every ten seconds,
// holds memory for as long as its peer may rest, and no longer: each fragment arms the deadline anew, but not the watch.
func TestRecordInFragments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		s := &transport.Server{Handler: newEcho(), Config: cfg}
		defer s.Close()
		a, b := rdmaptest.Pipe()
		defer a.Close()
		served := make(chan error, 1)
		start := time.Now()
		go func() { served <- s.ServeSharedConn(b) }()
		call := rpcCall(1, procNull)
		fragment := append(xdr.AppendRecordMark(nil, 1, false), 0)
		a.Write(append(xdr.AppendRecordMark(nil, len(call), false), call...))
		var err error
		for n := 0; err == nil && n < 100; n++ {
			select {
			case err = <-served:
			case <-time.After(10 * time.Second):
				a.Write(fragment)
			}
		}
		_, slow := errors.AsType[*rpc.SlowPeerError](err)
		if d := time.Since(start); !slow || d > 2*stream.Patience {
			t.Errorf("given up after %v, because the peer is slow: %t", d, slow)
		}
		synctest.Wait()
		if st := s.Stats(); st.Held != 0 || st.SlowPeers != 1 {
			t.Errorf("%+v", st)
		}
	})
}
