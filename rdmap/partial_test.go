package rdmap_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestPartialFPDUEnds: a peer that stops inside an FPDU loses its connection. One that completes it in time, octet by octet, or
// that stops between two FPDUs does not. ADVERSARY 20.
func TestPartialFPDUEnds(t *testing.T) {
	const limit = 10 * time.Second
	for name, tt := range map[string]struct {
		stop  int           // octets sent
		every time.Duration // pause before each further octet; 0: no more octets
		ends  bool
	}{
		"stops": {stop: 20, ends: true}, "stops after one octet": {stop: 1, ends: true},
		"dribbles": {20, limit / 100, false}, "dribbles without end": {20, limit - time.Second, true},
		"between two": {stop: len(rdmaptest.Gold.Send) / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				h := rdmaptest.NewCollector()
				y := rdmap.Server(b, &rdmap.Config{Handler: h, Timeouts: rdmap.Timeouts{FPDU: limit}})
				served := make(chan error, 1)
				go func() {
					err := y.Handshake(t.Context())
					if err == nil {
						err = y.Serve()
					}
					served <- err
				}()
				if _, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1}); err != nil {
					t.Fatal(err)
				}
				fpdu := rdmaptest.Unhex(t, rdmaptest.Gold.Send)
				n := min(tt.stop, len(fpdu))
				_, err := a.Write(fpdu[:n])
				start := time.Now()
				for tt.every > 0 && n < len(fpdu) && err == nil {
					time.Sleep(tt.every)
					_, err = a.Write(fpdu[n : n+1])
					n++
				}
				if !tt.ends && err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * limit)
				select {
				case err := <-served:
					if !tt.ends || !errors.Is(err, verbs.ErrPartialFPDU) || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("after %v: %v", time.Since(start), err)
					}
				default:
					if tt.ends {
						t.Error("the connection has not ended")
					}
					y.Abort(nil)
					<-served
				}
				a.Close()
				synctest.Wait()
				if y.AwaitsRest() {
					t.Error("a timer still refers to the connection that has ended")
				}
			})
		})
	}
}
