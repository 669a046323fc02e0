package transport_test

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// sendULPDU is a whole message of one Send, the first of its connection.
func sendULPDU(payload ...[]byte) []byte {
	b := append([]byte{0x41, 0x43}, words(0, 0, 1, 0)...)
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

// silentPeers are the ways to leave a server waiting (ADVERSARY row 20); rdmap has those within the start-up and within an
// FPDU. Each runs on its end of a connection and returns; the end is not closed.
var silentPeers = []struct {
	name  string
	limit time.Duration // after which the server has given up
	start func(c net.Conn) error
}{
	{"no request", 10 * time.Second, func(net.Conn) error { return nil }},
	{"does not read its replies", 30 * time.Second, func(c net.Conn) error {
		p, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 4, ORD: 4})
		if err != nil {
			return err
		}
		h := header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeMsg, Lists: chunks.Lists{
			Reply: chunks.WriteChunk{{Handle: 1, Length: 100_000}}, HasReply: true,
		}})
		return p.Send(sendULPDU(h, rpcCall(1, procFill, words(90_000)...)))
	}},
	{"does not answer RDMA Reads", 30 * time.Second, func(c net.Conn) error {
		p, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 4, ORD: 4})
		if err != nil {
			return err
		}
		h := header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
			Read: []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 1, Length: 5000}}},
		}})
		return p.Send(sendULPDU(h))
	}},
}

// goodCall moves data by chunks both ways.
func goodCall(t *testing.T, c *transport.Client) {
	t.Helper()
	call := echoCall(filled(5000))
	call.Sink, call.MaxResults = make([]byte, 5000), 64
	var r rpc.Reply
	noErr(t, c.Do(t.Context(), call, &r))
	checkEcho(t, &r, call.Item, call.Sink)
	r.Release()
}

// TestSilentPeers leaves a server waiting for 1,500 peers. A good client is served all
// the while; every bad one is gone after its deadline, and counted once.
func TestSilentPeers(t *testing.T) {
	const each = 500
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Reading.HandlerLimit = -1 // the watchdog of the process is not of this bubble
		s, c, end := pipePair(t, newEcho(), cfg, testConfig())
		defer end()
		var ends []net.Conn
		var served sync.WaitGroup
		for _, kind := range silentPeers {
			for range each {
				a, b := rdmaptest.PipeSize(2000)
				ends = append(ends, a)
				served.Go(func() {
					if e, ok := errors.AsType[*rpc.OpError](s.ServeConn(b)); !ok || !e.Timeout() {
						t.Errorf("%s: %v", kind.name, e)
					}
				})
				go func() {
					if err := kind.start(a); err != nil {
						t.Errorf("%s: %v", kind.name, err)
					}
				}()
			}
		}
		start := time.Now()
		synctest.Wait()
		if n := s.Stats().Connections; n != 1+each*len(silentPeers) {
			t.Fatalf("%d connections", n)
		}
		for _, after := range []time.Duration{10 * time.Second, 30 * time.Second, 60 * time.Second} {
			time.Sleep(time.Until(start.Add(after - time.Second)))
			goodCall(t, c)
			left := 1
			for _, kind := range silentPeers {
				if kind.limit >= after {
					left += each
				}
			}
			if n := s.Stats().Connections; n != left {
				t.Errorf("shortly before %v: %d connections, want %d", after, n, left)
			}
			time.Sleep(4 * time.Second)
			goodCall(t, c)
		}
		served.Wait()
		synctest.Wait() // the server counts a call out after its reply has left
		if st := s.Stats(); st.Connections != 1 || st.InFlight != 0 || st.SlowPeers != uint64(each*len(silentPeers)) {
			t.Errorf("at the end: %+v", st)
		}
		for _, a := range ends {
			a.Close()
		}
	})
}

// silentMemory is what a silent peer may cost, octets: both ends in this process, the
// stacks of their goroutines included.
const silentMemory = 32 << 10

// TestSilentPeersMemory keeps 1,000 TCP connections waiting, and calls a good client's
// procedures beside them.
func TestSilentPeersMemory(t *testing.T) {
	const each = 500
	cfg := testConfig()
	cfg.Startup.Timeout = time.Hour
	s, addr := startServer(t, newEcho(), cfg)
	c := dial(t, addr, nil)
	mustDo(t, c, &nullCall)
	var ends []net.Conn
	defer func() {
		for _, a := range ends {
			a.Close()
		}
	}()
	idle := func(a net.Conn) error {
		_, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 4, ORD: 4})
		return err
	}
	before := memoryInUse()
	for _, start := range []func(net.Conn) error{silentPeers[0].start, idle} {
		for range each {
			a := must(net.Dial("tcp", addr))(t)
			ends = append(ends, a)
			noErr(t, start(a))
		}
		goodCall(t, c)
	}
	waitFor(t, "all are connected", func() bool { return s.Stats().Connections == 1+len(ends) })
	for range 100 {
		mustDo(t, c, &nullCall)
	}
	if per := (memoryInUse() - before) / len(ends); per > silentMemory && !raceEnabled {
		t.Errorf("a silent peer costs %d octets", per)
	}
	for _, a := range ends {
		a.Close()
	}
	waitFor(t, "all are gone", func() bool { return s.Stats().Connections == 1 })
	if err := try(t, c, &nullCall); errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// memoryInUse is what heap and stacks hold.
func memoryInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
