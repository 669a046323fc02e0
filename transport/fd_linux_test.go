package transport_test

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/memory"
)

// openFiles counts the descriptors of the process, except those of pollers: there is
// one of them per process, made when a connection first falls idle.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	list := must(os.ReadDir("/proc/self/fd"))(t)
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to != "anon_inode:[eventpoll]" {
			n++
		}
	}
	return n
}

// octetsOf hides that a connection could be spliced: the pipes for that would be counted.
type octetsOf struct{ io.Reader }

// cutRelay passes one TCP connection on to addr and breaks it, with a reset, when so
// many octets have come from the client or from the server.
func cutRelay(t *testing.T, addr string, client, server int64) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer l.Close()
		in, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		out, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		var once sync.Once
		cut := func() {
			once.Do(func() {
				for _, c := range []net.Conn{in, out} {
					c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
			})
		}
		wg.Go(func() { defer cut(); io.CopyN(out, octetsOf{in}, client) })
		wg.Go(func() { defer cut(); io.CopyN(in, octetsOf{out}, server) })
	})
	t.Cleanup(wg.Wait)
	return l.Addr().String()
}

// TestFilesAfterCuts breaks TCP connections in the start-up, in calls and in replies.
// Afterwards client and server hold as many descriptors as before, no STag, no buffer
// and no goroutine (ADVERSARY row 9).
func TestFilesAfterCuts(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	mustDo(t, dial(t, addr, nil), &nullCall) // what the process makes once is there
	waitFor(t, "the other tests' connections are gone", func() bool { return s.Stats().Connections == 1 })
	time.Sleep(20 * time.Millisecond)
	before, buffers := openFiles(t), memory.Shared.Live()
	const never = 1 << 40
	for _, at := range []int64{0, 1, 19, 20, 40, 55, 100, 200, 1000, 4000, 6000, 9000, 12000} {
		for _, limit := range [][2]int64{{at, never}, {never, at}} {
			c, err := transport.Dial(testCtx(t), "tcp", cutRelay(t, addr, limit[0], limit[1]), testConfig())
			if err != nil {
				continue // cut in the start-up
			}
			conversation(t, c)
			c.Close()
			<-c.Conn().Done()
			if n := c.Conn().Table().Live(); n != 0 {
				t.Errorf("cut at %v: %d live STags", limit, n)
			}
		}
	}
	waitFor(t, "the server has given up the broken connections", func() bool { return s.Stats().Connections == 1 })
	waitFor(t, "as many descriptors as before", func() bool { return openFiles(t) <= before })
	waitFor(t, "all buffers are back", func() bool { return memory.Shared.Live() <= buffers })
}
