package transport_test

import (
	"net"
	"os"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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

// TestFilesAfterCuts breaks TCP connections in the start-up, in calls and in replies.
// Afterwards client and server hold as many descriptors as before, no STag, no buffer
// and no goroutine (ADVERSARY row 9).
func TestFilesAfterCuts(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	mustDo(t, dial(t, addr, nil), &nullCall) // what the process makes once is there
	before, buffers := openFiles(t), memory.Shared.Live()
	for _, at := range []int64{0, 1, 19, 20, 40, 55, 100, 200, 1000, 4000, 6000, 9000, 12000} {
		cut := rdmaptest.Fault{Cut: rdmaptest.CutReset, CutAt: at}
		for _, faults := range []rdmaptest.Faults{{In: cut}, {Out: cut}} {
			c, err := transport.NewClient(testCtx(t), rdmaptest.Wrap(must(net.Dial("tcp", addr))(t), faults), testConfig())
			if err != nil {
				continue // cut in the start-up
			}
			conversation(t, c)
			c.Close()
			<-c.Conn().Done()
			if n := c.Conn().Table().Live(); n != 0 {
				t.Errorf("cut at %v: %d live STags", at, n)
			}
		}
	}
	waitFor(t, "the server has given up the broken connections", func() bool { return s.Stats().Connections == 1 })
	waitFor(t, "as many descriptors as before", func() bool { return openFiles(t) <= before })
	waitFor(t, "all buffers are back", func() bool { return memory.Shared.Live() <= buffers })
}
