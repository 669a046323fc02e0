package rdmap_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSlowTerminate: behind a slow link the Terminate comes after all that has begun, however long the peer needs to
// take that. If it takes nothing, the connection does not wait.
func TestSlowTerminate(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := rdmaptest.PipeSize(16 << 10)
			x, p := RawResponder(t, a, b, &rdmap.Config{})
			go x.Send(t.Context(), make([]byte, 512<<10)) //nolint:errcheck // it fails
			synctest.Wait()
			if err := p.Send([]byte{0x4f, 0x4f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil { // no such opcode
				t.Fatal(err)
			}
			begun := time.Now()
			told := false
			for !stops && !told {
				u, err := p.Next()
				if err != nil {
					break
				}
				told = u[1]&0x0f == byte(verbs.OpTerminate)
				time.Sleep(10 * time.Millisecond)
			}
			if !stops && (!told || time.Since(begun) < 2*time.Second) {
				t.Errorf("Terminate: %v, after %v", told, time.Since(begun))
			}
			if <-x.Done(); stops && time.Since(begun) > 5*time.Second {
				t.Errorf("ended after %v", time.Since(begun))
			}
			b.Close()
		})
	}
}
