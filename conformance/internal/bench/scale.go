package bench

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

const (
	idleClients  = 10000
	idleRSS      = 256 // MiB, of a server with that many
	busyClients  = 2000
	busyCPU      = 15 // percent of a core, of a server that they call once a second
	dialers      = 16
	perAddress   = 1000 // clients per local address, which has only so many ports
	scaleTimeout = time.Minute
	pullRequest  = 28 // octets, as a Read Request
)

// ScalePeer is the other process of Scale: the addresses of its services.
type ScalePeer struct {
	RDMA   string `json:"rdma"`   // benchProg
	Target string `json:"target"` // an engine: see target
	Zeros  string `json:"zeros"`  // plain TCP: octets without end
	Pulls  string `json:"pulls"`  // plain TCP: pullRequest octets answered with growRead
	Mux    string `json:"mux"`    // plain TCP: see muxer
}

// ServeScale starts the services of the other process. They end when stop is called.
func ServeScale() (p ScalePeer, stop func(), err error) {
	var ls [5]net.Listener
	for i := range ls {
		if ls[i], err = listen(); err != nil {
			return p, nil, err
		}
	}
	srv := &transport.Server{Handler: rpcHandler{}}
	go func() { _ = srv.Serve(ls[0]) }() // ends with Close
	go acceptAll(ls[1], func(c net.Conn) { report(serveTarget(c)) })
	go acceptAll(ls[2], serveZeros)
	go acceptAll(ls[3], func(c net.Conn) { serveEcho(c, pullRequest, growRead) })
	go acceptAll(ls[4], serveMux)
	at := func(i int) string { return ls[i].Addr().String() }
	p = ScalePeer{RDMA: at(0), Target: at(1), Zeros: at(2), Pulls: at(3), Mux: at(4)}
	return p, func() {
		for _, l := range ls {
			l.Close()
		}
		srv.Close()
	}, nil
}

// Scale measures many connections to the services of another process, and how they share. A figure is
// compared with a limit, or with the same exchange while nothing else is going on. Only the cases whose
// names contain only are measured. With quick there are fewer connections, for a shorter time. If progress
// is not nil, it is called before each round.
func Scale(p ScalePeer, only string, rounds int, quick bool, progress func(done, of int)) ([]Result, error) {
	idle, busy, dur, pings := idleClients, busyClients, 10*time.Second, time.Second
	if quick {
		idle, busy, dur, pings = 200, 50, time.Second, 50*time.Millisecond
	}
	limit := func(name, unit string, round func() (base, ours float64, err error)) measure.Case {
		return measure.Case{Result: Result{Name: name, Unit: unit, Gate: 1, AtMost: true}, Round: round, Once: true}
	}
	cases := []measure.Case{
		limit(fmt.Sprintf("%d idle connections, then a call on each: memory of the server", idle), "MiB", func() (float64, float64, error) { return crowd(p, idle) }),
		limit(fmt.Sprintf("%d clients, a call a second each: CPU of the server", busy), "%", func() (float64, float64, error) { return murmur(p, busy, dur) }),
		{Result: Result{Name: "slowest of 100 messages beside a bulk stream of another connection, against one of plain TCP", Unit: "us", Gate: 2, AtMost: true}, Round: func() (float64, float64, error) { return otherConn(p, pings) }},
		{Result: Result{Name: "slowest of 100 messages beside a bulk stream of the same connection, against plain TCP", Unit: "us", Goal: 2, AtMost: true}, Round: func() (float64, float64, error) { return sameConnTCP(p, pings) }},
		{Result: Result{Name: "slowest of 100 messages beside a bulk stream of the same connection, against three batches", Unit: "us", Goal: 1, AtMost: true}, Round: func() (float64, float64, error) { return sameConn(p, pings) }},
		{Result: Result{Name: "FIN on an idle connection noticed", Unit: "ms", Gate: 1, AtMost: true}, Round: func() (float64, float64, error) { return noticed(restLong, hangUp) }},
		{Result: Result{Name: "FIN just after a call noticed", Unit: "ms", Gate: 1, AtMost: true}, Round: func() (float64, float64, error) { return noticed(0, hangUp) }},
		{Result: Result{Name: "Terminate on an idle connection noticed", Unit: "ms", Gate: 1, AtMost: true}, Round: func() (float64, float64, error) { return noticed(restLong, terminate) }},
		{Result: Result{Name: "Terminate just after a call noticed", Unit: "ms", Gate: 1, AtMost: true}, Round: func() (float64, float64, error) { return noticed(0, terminate) }},
	}
	return measure.Run(cases, only, rounds, progress)
}

// crowd opens n connections, calls once on each, lets them rest, calls on all of them at once, and returns
// the largest resident memory of the server, in MiB.
func crowd(p ScalePeer, n int) (limit, peak float64, err error) {
	cs, hangUp, err := dialMany(p.RDMA, n)
	defer hangUp()
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Second)
	start := make(chan struct{})
	err = each(n, n, func(i int) error {
		<-start
		return null(cs[i])
	}, func() { close(start) })
	if err != nil {
		return 0, 0, err
	}
	u, err := peerUsage(cs[0])
	return idleRSS, float64(u.peak) / (1 << 20), err
}

// murmur makes n clients call once a second each, for dur, and returns the processor time that the server
// used meanwhile, in percent of a core.
func murmur(p ScalePeer, n int, dur time.Duration) (limit, share float64, err error) {
	cs, hangUp, err := dialMany(p.RDMA, n)
	defer hangUp()
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Second)
	before, err := peerUsage(cs[0])
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	err = each(n, n, func(i int) error {
		time.Sleep(time.Second * time.Duration(i) / time.Duration(n))
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for time.Since(start) < dur {
			if err := null(cs[i]); err != nil {
				return err
			}
			<-tick.C
		}
		return nil
	}, nil)
	if err != nil {
		return 0, 0, err
	}
	took := time.Since(start)
	after, err := peerUsage(cs[0])
	return busyCPU, 100 * float64(after.cpu-before.cpu) / float64(took), err
}

// dialMany opens n connections and calls once on each. hangUp closes those that it opened.
func dialMany(addr string, n int) (cs []*transport.Client, hangUp func(), err error) {
	cs = make([]*transport.Client, n)
	hangUp = func() {
		_ = each(n, dialers, func(i int) error {
			if cs[i] == nil {
				return nil
			}
			return cs[i].Close()
		}, nil)
	}
	err = each(n, dialers, func(i int) error {
		c, err := dialFrom(localFor(i), addr)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), scaleTimeout)
		defer cancel()
		if cs[i], err = transport.NewClient(ctx, c, nil); err != nil {
			return err
		}
		return null(cs[i])
	}, nil)
	return cs, hangUp, err
}

// localFor returns the local address of connection i.
func localFor(i int) net.IP { return net.IPv4(127, 0, 0, byte(2+i/perAddress)) }

// dialFrom dials from a local address.
func dialFrom(ip net.IP, addr string) (net.Conn, error) {
	d := net.Dialer{Control: reno, Timeout: scaleTimeout, LocalAddr: &net.TCPAddr{IP: ip}}
	return d.Dial("tcp", addr)
}

// each calls f for 0 to n-1, each in a goroutine, and returns the first error. If begun is not nil, it is
// called once they all exist.
func each(n, goroutines int, f func(i int) error, begun func()) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				if err := f(i); err != nil {
					mu.Lock()
					first = cmpErr(first, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	if begun != nil {
		begun()
	}
	wg.Wait()
	return first
}

func cmpErr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// null makes a NULL call.
func null(c *transport.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), scaleTimeout)
	defer cancel()
	var reply rpc.Reply
	defer reply.Release()
	return c.Do(ctx, &rpc.Call{Prog: benchProg, Vers: 1, Proc: procNull}, &reply)
}

// usage is the resources that a process has used.
type usage struct {
	cpu  time.Duration
	peak uint64 // peak resident octets
}

// appendUsage answers procUsage. A value that is not available is the largest number, and misses every gate.
func appendUsage(b []byte) []byte {
	cpu, err := cpuTime()
	if err != nil {
		cpu = math.MaxInt64
	}
	peak, err := peakRSS()
	if err != nil {
		peak = math.MaxUint64
	}
	return xdr.AppendUint64(xdr.AppendUint64(b, uint64(cpu)), peak)
}

// peerUsage asks the other process.
func peerUsage(c *transport.Client) (u usage, err error) {
	var reply rpc.Reply
	defer reply.Release()
	if err := c.Do(context.Background(), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procUsage}, &reply); err != nil {
		return u, err
	}
	d := xdr.NewDecoder(reply.Results)
	u.cpu, u.peak = time.Duration(d.Uint64()), d.Uint64()
	return u, d.ErrIn("usage")
}
