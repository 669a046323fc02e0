package rdmap_test

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// maxBacklog is how many octets a connection keeps before its whole stream waits.
const maxBacklog = 128 << 10

// rawInitiator connects an engine, as responder, to a Peer.
func rawInitiator(t *testing.T, a, b net.Conn, cfg *rdmap.Config) (*rdmaptest.Peer, *rdmap.Conn) {
	t.Helper()
	y := rdmap.Server(b, cfg)
	ch := make(chan error, 1)
	go func() { ch <- y.Handshake(t.Context()) }()
	p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 8, ORD: 8})
	noErr(t, err)
	noErr(t, <-ch)
	t.Cleanup(func() { y.Abort(nil); <-y.Done(); a.Close() })
	return p, y
}

// sendPart returns a segment of the Send with MSN 1, not the last one: n octets of "HELLO" beginning at
// mo.
func sendPart(t testing.TB, mo, n int) []byte {
	u := rdmaptest.Patch(t, rdmaptest.Gold.Send, 0, 0x01)
	u[17] = byte(mo)
	return append(u[:18], "HELLO"[mo:mo+n]...)
}

// TestUnfinishedSends: peers that begin Sends and do not finish them, some of them slow ones, hold all
// memory for Sends. A good peer gets some after half of its Timeouts.Memory, and the peers that held it
// are told why they lost it. ADVERSARY 20.
func TestUnfinishedSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers = 500
		pool := rdmap.NewPool(peers * rdmap.DefaultRecvSize)
		var bad []*rdmap.Conn
		var wg sync.WaitGroup
		for i := range peers {
			a, b := rdmaptest.PipeSize(4000)
			p, y := rawInitiator(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Pool: pool, Count: 2}})
			go y.Serve()
			bad = append(bad, y)
			noErr(t, p.Send(sendPart(t, 0, 1)))
			if i%2 == 0 {
				wg.Go(func() {
					for mo := 1; mo < 5; mo++ {
						time.Sleep(4 * time.Second)
						if p.Send(sendPart(t, mo, 1)) != nil {
							return
						}
					}
				})
			}
			wg.Go(func() {
				u, err := p.Next()
				if want := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(0, nil, false)); err != nil || !bytes.Equal(u, want) {
					t.Errorf("the peer got %x, %v", u, err)
				}
			})
		}
		synctest.Wait()
		if pool.Used() != peers*rdmap.DefaultRecvSize {
			t.Fatalf("%d octets of the pool in use", pool.Used())
		}
		a, b := rdmaptest.Pipe()
		h := rdmaptest.NewCollector()
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{MULPDU: 1000}}, &rdmap.Config{Receives: rdmap.Receives{Pool: pool}, Handler: h})
		go y.Serve()
		start := time.Now()
		noErr(t, x.Send(t.Context(), rdmaptest.Pattern(3000)))
		<-h.Got
		if d := time.Since(start); d != rdmap.DefaultMemoryTimeout/2 {
			t.Errorf("the good peer waited for %v", d)
		}
		for _, y := range bad {
			<-y.Done()
			if _, ok := errors.AsType[*verbs.LocalError](y.Err()); !ok || !errors.Is(y.Err(), verbs.ErrUnfinishedSend) {
				t.Fatalf("a bad peer's connection ended with %v", y.Err())
			}
		}
		wg.Wait()
		if y.Err() != nil || pool.Used() != 0 {
			t.Errorf("%v, %d octets of the pool in use", y.Err(), pool.Used())
		}
	})
}

// TestLongSend: while nobody waits for memory, a Send may take hours. When somebody waits, a Send that
// is complete by then, and one that began later, are not ended.
func TestLongSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := rdmap.NewPool(3 * rdmap.DefaultRecvSize)
		var peers [5]*rdmaptest.Peer
		var conns [5]*rdmap.Conn
		for i := range peers {
			a, b := rdmaptest.Pipe()
			peers[i], conns[i] = rawInitiator(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Pool: pool, Count: 2}})
			go conns[i].Serve()
		}
		send := func(i int, u []byte) {
			noErr(t, peers[i].Send(u))
			synctest.Wait()
		}
		last := append(rdmaptest.Patch(t, rdmaptest.Gold.Send, 17, 1)[:18], "ELLO"...)
		send(0, sendPart(t, 0, 1))
		time.Sleep(time.Hour)
		send(0, last)
		if m, err := conns[0].Recv(t.Context()); err != nil || string(m.Data) != "HELLO" {
			t.Fatal(err)
		}
		send(1, sendPart(t, 0, 1)) // never ends
		send(2, sendPart(t, 0, 1)) // ends soon
		hog, _ := pool.Mem().Get(rdmap.DefaultRecvSize)
		time.Sleep(time.Second)
		send(3, sendPart(t, 0, 1)) // waits, and then never ends either
		send(4, sendPart(t, 0, 1)) // waits
		time.Sleep(time.Second)
		send(2, last)
		if _, err := conns[2].Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rdmap.DefaultMemoryTimeout - 2*time.Second)
		for i, c := range conns {
			if got := c.Err() != nil; got != (i == 1) {
				t.Errorf("connection %d: %v", i, c.Err())
			}
		}
		pool.Mem().Put(hog)
	})
}

// TestPutOffTogether: what stalled connections put off is bounded for all of them together, so that
// many cannot do what one cannot. Nothing of it is lost.
func TestPutOffTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns, msgs = 40, 100
		pool := rdmap.NewPool(10_000)
		hog, _ := pool.Mem().Get(10_000)
		var hs []*rdmaptest.Collector
		var wg sync.WaitGroup
		for range conns {
			a, b := rdmaptest.PipeSize(3000)
			h := rdmaptest.NewCollector()
			p, y := rawInitiator(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Pool: pool, Count: 2 * msgs, Size: 1000}, Handler: h})
			go y.Serve()
			hs = append(hs, h)
			wg.Go(func() {
				for i := range msgs {
					for mo, last := range []bool{false, true} { // each needs memory
						u := rdmaptest.Patch(t, rdmaptest.Gold.Send, 13, byte(i+1), 0, 0, 0, byte(mo))
						if !last {
							u[0] = 0x01
						}
						u = append(u[:18], byte(i))
						if err := p.Send(u); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		synctest.Wait()
		if most := maxBacklog + conns*(2+19); pool.Mem().Load().PutOff > most || pool.Mem().Load().PutOff < maxBacklog-100 {
			t.Errorf("%d octets put off, at most %d", pool.Mem().Load().PutOff, most)
		}
		pool.Mem().Put(hog)
		for _, h := range hs {
			for range msgs {
				<-h.Got
			}
			for i, m := range h.Msgs {
				if len(m) != 2 || m[0] != byte(i) {
					t.Fatalf("message %d: %x", i, m)
				}
			}
		}
		wg.Wait()
		synctest.Wait()
		if pool.Mem().Load().PutOff != 0 || pool.Used() != 0 {
			t.Errorf("%d octets put off, %d in use", pool.Mem().Load().PutOff, pool.Used())
		}
	})
}
