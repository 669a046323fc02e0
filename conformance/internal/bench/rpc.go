package bench

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// benchProg is the RPC program of the benchmark.
const benchProg = 0x20000099

// Octets of a NULL call and of its reply as FPDUs: 28 of RPC-over-RDMA header, 40
// (24) of RPC header, 20 of DDP header and length, 4 of CRC.
const (
	nullCall  = 28 + 40 + 24
	nullReply = 28 + 24 + 24
	echoArgs  = 100 // octets of arguments of the 64 callers
	callers   = 64
)

// Procedures of benchProg.
const (
	procNull   = 0
	procEcho   = 1 // returns its arguments
	procMemory = 2 // returns the memory of the process after a collection, in octets
	procOwn    = 8 // procEcho in a goroutine of its own
	procItem   = 9 // returns an opaque, by chunks
	procUsage  = 3 // returns the resources that the process has used: see usage
)

// rpcHandler is the program.
type rpcHandler struct{}

// MayBlock implements transport's optional method.
func (rpcHandler) MayBlock(_, _, proc uint32) bool { return proc == procOwn }

func (rpcHandler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch req.Proc {
	case procEcho, procOwn:
		resp.Results = append(resp.Results, req.Args...)
	case procMemory:
		resp.Results = xdr.AppendUint64(resp.Results, memoryInUse())
	case procItem:
		echoItem(ctx, req, resp)
	case procUsage:
		resp.Results = appendUsage(resp.Results)
	}
}

// Peer is the other process: the addresses of its services.
type Peer struct {
	Echo    string `json:"echo"`    // plain TCP, nullCall octets answered with nullReply
	Records string `json:"records"` // record-marked RPC, a goroutine per request
	RDMA    string `json:"rdma"`
	Ping    string `json:"ping"` // plain TCP, pingFPDU octets answered with as many
	Pong    string `json:"pong"` // engine: a Send answered with a Send
	Bulk    string `json:"bulk"` // record-marked echo of bulkSize octets
	// Echo of as many by chunks, with CRC and without.
	Chunks     string `json:"chunks"`
	ChunksBare string `json:"chunksBare"`
	// Sinks of records and of Sends, which answer only the last one.
	RecordDrain string `json:"recordDrain"`
	Drain       string `json:"drain"`
}

// ServePeer starts the services of the other process. They end when stop is called.
func ServePeer() (p Peer, stop func(), err error) {
	var ls [10]net.Listener
	for i := range ls {
		if ls[i], err = listen(); err != nil {
			return p, nil, err
		}
	}
	go acceptAll(ls[0], func(c net.Conn) { serveEcho(c, nullCall, nullReply) })
	go acceptAll(ls[1], serveRecords)
	go acceptAll(ls[3], func(c net.Conn) { serveEcho(c, pingFPDU, pingFPDU) })
	go acceptAll(ls[4], servePong)
	go acceptAll(ls[5], serveBulkRecords)
	go acceptAll(ls[8], serveRecordDrain)
	go acceptAll(ls[9], serveDrain)
	srvs := [...]*transport.Server{
		{Handler: rpcHandler{}},
		{Handler: rpcHandler{}, Config: echoConfig(transport.CRCOn)},
		{Handler: rpcHandler{}, Config: echoConfig(transport.CRCOff)},
	}
	for i, at := range [...]int{2, 6, 7} {
		go func() { _ = srvs[i].Serve(ls[at]) }()
	}
	at := func(i int) string { return ls[i].Addr().String() }
	p = Peer{
		Echo: at(0), Records: at(1), RDMA: at(2), Ping: at(3), Pong: at(4),
		Bulk: at(5), Chunks: at(6), ChunksBare: at(7),
		RecordDrain: at(8), Drain: at(9),
	}
	return p, func() {
		for _, l := range ls {
			l.Close()
		}
		for _, srv := range srvs {
			srv.Close()
		}
	}, nil
}

func acceptAll(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// RPC measures exchanges with the services of another process: the latency of a Send and of a NULL call
// against a TCP exchange of as many octets, n per round; the rate of Sends in n batches; the rate of 64
// callers on one connection and of echoes by chunks, for dur per round; and the memory of an idle
// connection. Only the cases whose names contain only are measured. If progress is not nil, it is called
// before each round.
func RPC(p Peer, only string, rounds, n int, dur time.Duration, progress func(done, of int)) ([]Result, error) {
	cases := []measure.Case{
		{Result: Result{Name: "Send of 64 octets and its answer, two processes", Unit: "us", Goal: 1.15, AtMost: true}, Round: func() (float64, float64, error) { return pingRound(p, n) }, Best: true},
		{Result: Result{Name: "Sends of 64 octets, 32 in flight, two processes", Unit: "1/s", Goal: 0.70}, Round: func() (float64, float64, error) { return sendsRound(p, n) }},
		{Result: Result{Name: "NULL call, two processes", Unit: "us", Gate: 1.5, Goal: 1.2, AtMost: true}, Round: func() (float64, float64, error) { return latencyRound(p, n) }, Best: true},
		{Result: Result{Name: "64 callers, one connection", Unit: "calls/s", Gate: 3, Goal: 6}, Round: func() (float64, float64, error) { return callersRound(p, procEcho, dur) }},
		{Result: Result{Name: "64 callers, a goroutine a request", Unit: "calls/s", Goal: 3.5}, Round: func() (float64, float64, error) { return callersRound(p, procOwn, dur) }},
		{Result: Result{Name: "echo of 1 MiB by chunks, against records", Unit: "MB/s", Goal: 0.8}, Round: func() (float64, float64, error) { return echoRound(p, transport.CRCOff, dur) }},
		{Result: Result{Name: "echo of 1 MiB by chunks, CRC, against records", Unit: "MB/s", Goal: 0.55}, Round: func() (float64, float64, error) { return echoRound(p, transport.CRCOn, dur) }},
		{Result: Result{Name: "idle server connection, against its limit", Unit: "KiB", Gate: 1, AtMost: true}, Round: func() (float64, float64, error) { return idleRound(p) }, Once: true},
	}
	return measure.Run(cases, only, rounds, progress)
}

// dialRDMA connects a transport client over a reno socket.
func dialRDMA(addr string, cfg *transport.Config) (*transport.Client, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return transport.NewClient(ctx, c, cfg)
}

func latencyRound(p Peer, n int) (base, ours float64, err error) {
	c, err := dial(p.Echo)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if base, err = pingPong(c, nullCall, nullReply, n); err != nil {
		return 0, 0, err
	}
	cl, err := dialRDMA(p.RDMA, nil)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	call := &rpc.Call{Prog: benchProg, Vers: 1, Proc: procNull}
	var reply rpc.Reply
	rtt := make([]float64, n)
	for i := range rtt {
		start := time.Now()
		if err := cl.Do(context.Background(), call, &reply); err != nil {
			return 0, 0, err
		}
		rtt[i] = float64(time.Since(start).Nanoseconds()) / 1e3
		reply.Release()
	}
	return base, median(rtt), nil
}

func callersRound(p Peer, proc uint32, dur time.Duration) (base, ours float64, err error) {
	args := make([]byte, echoArgs)
	c, err := dial(p.Records)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	rc := newRecordClient(c)
	if base, err = rate(dur, func() func() error {
		return func() error { return rc.call(args) }
	}); err != nil {
		return 0, 0, err
	}
	cl, err := dialRDMA(p.RDMA, nil)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	ours, err = rate(dur, func() func() error {
		call := &rpc.Call{Prog: benchProg, Vers: 1, Proc: proc, Args: args}
		reply := new(rpc.Reply)
		return func() error {
			err := cl.Do(context.Background(), call, reply)
			if err == nil && len(reply.Results) != echoArgs {
				err = errors.New("bench: short reply")
			}
			reply.Release()
			return err
		}
	})
	return base, ours, err
}

// rate runs 64 callers for dur and returns their calls per second.
func rate(dur time.Duration, newCaller func() func() error) (float64, error) {
	const burst = 16 // calls between two readings of the clock
	var calls [callers]func() error
	for i := range calls {
		calls[i] = newCaller()
	}
	bursts, err := measure.Rate(callers, dur, func(i int) error {
		for range burst {
			if err := calls[i](); err != nil {
				return err
			}
		}
		return nil
	})
	return burst * bursts, err
}
