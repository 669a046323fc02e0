package rdmap_test

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// TestGuessesOfAHost: the wrong guesses of one client count together, over all of its connections and all addresses of its
// /64. On loopback each connection has its own, since it may be anybody's.
func TestGuessesOfAHost(t *testing.T) { synctest.Test(t, testGuessesOfAHost) }

func testGuessesOfAHost(t *testing.T) {
	for _, x := range []struct {
		first, second string
		together      bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::2", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"127.0.0.1", "127.0.0.1", false},
		{"::1", "::1", false},
		{"", "", false},
	} {
		cfg := &rdmap.Config{Domain: region.NewDomain()}
		mem := pmemtest.NewSim(1024, nil)
		views := make([]region.View, 2)
		tables := make([]*region.Table, 2)
		for i, addr := range []string{x.first, x.second} {
			nc, peer := net.Pipe()
			defer peer.Close()
			c := rdmap.Server(&from{nc, addr}, cfg)
			defer c.Close()
			tables[i] = c.Table()
			reg, err := c.Table().RegisterMemory(mem, region.Options{Access: region.Verify})
			noErr(t, err)
			if views[i], err = c.Table().Lookup(reg.STag(), 0, 8, region.Verify); err != nil {
				t.Fatal(err)
			}
			defer views[i].Release()
		}
		for n := 0; views[0].MayGuess(tables[0]); n++ {
			if n > 100 {
				t.Fatal("guesses have no limit")
			}
			views[0].Guessed(tables[0])
		}
		if may := views[1].MayGuess(tables[1]); may == x.together {
			t.Errorf("%q has guessed too often, and %q may guess: %t", x.first, x.second, may)
		}
	}
}

// from is a connection from an address.
type from struct {
	net.Conn
	ip string
}

func (f *from) RemoteAddr() net.Addr {
	if f.ip == "" {
		return f.Conn.RemoteAddr()
	}
	return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 9}
}
