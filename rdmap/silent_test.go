package rdmap_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// silentPeers lists the ways to keep an engine waiting, and how long it waits.
var silentPeers = []struct {
	name  string
	limit time.Duration // 0: it waits for ever
	role  func(net.Conn, *rdmap.Config) *rdmap.Conn
	start func(t *testing.T, c net.Conn) error
}{
	{"no Request", rdmap.DefaultRequestTimeout, rdmap.Server, func(*testing.T, net.Conn) error { return nil }},
	{"half a Request", rdmap.DefaultRequestTimeout, rdmap.Server, func(_ *testing.T, c net.Conn) error {
		_, err := c.Write([]byte(mpa.RequestKey[:9]))
		return err
	}},
	{"no Reply", rdmap.DefaultReplyTimeout, rdmap.Client, func(*testing.T, net.Conn) error { return nil }},
	{"half a Reply", rdmap.DefaultReplyTimeout, rdmap.Client, func(_ *testing.T, c net.Conn) error {
		_, err := c.Write([]byte(mpa.ReplyKey[:9]))
		return err
	}},
	{"no FPDU", 0, rdmap.Server, func(_ *testing.T, c net.Conn) error {
		_, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 8, ORD: 8})
		return err
	}},
	{"half an FPDU", rdmap.DefaultFPDUTimeout, rdmap.Server, func(t *testing.T, c net.Conn) error {
		_, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 8, ORD: 8})
		if err == nil {
			_, err = c.Write(rdmaptest.Unhex(t, rdmaptest.Gold.Send)[:9])
		}
		return err
	}},
	{"half a Send", rdmap.DefaultMemoryTimeout / 2, rdmap.Server, func(t *testing.T, c net.Conn) error {
		p, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 8, ORD: 8})
		if err == nil {
			err = p.Send(sendPart(t, 0, 1))
		}
		return err
	}},
	{"reads none of the responses", rdmap.DefaultWriteTimeout, rdmap.Server, func(t *testing.T, c net.Conn) error {
		p, _, err := rdmaptest.Initiate(c, &mpa.Config{IRD: 8, ORD: 8})
		if err == nil {
			err = p.Send(rdmaptest.ReadRequest(t, silentStag, 0, 1<<16))
		}
		return err
	}},
}

// silentStag names the shared memory that peers read.
var silentStag region.STag

// TestSilentPeers: thousands of peers that stop in the middle do not stop the service, and are dropped when their time
// is over. ADVERSARY 20.
func TestSilentPeers(t *testing.T) {
	const each = 300
	synctest.Test(t, func(t *testing.T) {
		domain := region.NewDomain()
		shared, err := domain.RegisterShared(region.Bytes(make([]byte, 1<<16)), region.Options{Access: region.RemoteRead})
		noErr(t, err)
		silentStag = shared.STag()
		cfg := &rdmap.Config{Receives: rdmap.Receives{Pool: rdmap.NewPool(each * rdmap.DefaultRecvSize)}, Domain: domain}
		start := time.Now()
		var wg sync.WaitGroup
		var live []*rdmap.Conn
		for _, kind := range silentPeers {
			for range each {
				a, b := rdmaptest.PipeSize(2000)
				y := kind.role(b, cfg)
				wg.Go(func() {
					err := y.Handshake(context.Background())
					if err == nil {
						err = y.Serve()
					}
					if d := time.Since(start); kind.limit > 0 && (d < kind.limit || d > kind.limit+3*time.Second) {
						t.Errorf("%s: %v after %v, want %v", kind.name, err, d, kind.limit)
					}
					a.Close()
				})
				wg.Go(func() {
					if err := kind.start(t, a); err != nil {
						t.Errorf("%s: %v", kind.name, err)
					}
				})
				if kind.limit == 0 {
					live = append(live, y)
				}
			}
		}
		synctest.Wait()
		a, b := rdmaptest.Pipe()
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{MULPDU: 1000}}, cfg)
		for time.Since(start) < 2*rdmap.DefaultWriteTimeout {
			if err := x.Send(t.Context(), rdmaptest.Pattern(3000)); err != nil { // needs the Pool
				t.Fatal(err)
			}
			if _, err := y.Recv(t.Context()); err != nil {
				t.Fatal(err)
			}
			noErr(t, x.Read(t.Context(), make([]byte, 5000), silentStag, 0))
			time.Sleep(4 * time.Second)
		}
		for _, c := range live {
			if err := c.Err(); err != nil {
				t.Errorf("ended with %v", err)
			}
			c.Abort(nil)
		}
		wg.Wait()
		if n := cfg.Receives.Pool.Used(); n != 0 {
			t.Errorf("%d octets of the pool in use", n)
		}
	})
}
