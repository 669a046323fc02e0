package bench

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

const (
	bulkSize  = 1 << 20 // octets of one RDMA Write, and of one write of plain TCP
	bulkDepth = 8       // Writes or Reads in flight
)

// engineCase is one line of the engine's report.
type engineCase struct {
	name string
	unit string
	// The median ratio must pass gate, 0: none; goal is what is aimed at.
	gate, goal float64
	// base and ours are one round each, of total octets: MB/s or messages a second.
	base, ours func(total int) (float64, error)
}

var engineCases = []engineCase{
	writeCase("RDMA Write 1 MiB, 64 KiB FPDUs, CRC", rdmap.StagMULPDU, rdmap.CRCOn, 0.45, 0.50),
	writeCase("RDMA Write 1 MiB, 64 KiB FPDUs", rdmap.StagMULPDU, rdmap.CRCOff, 0.70, 0.76),
	writeCase("RDMA Write 1 MiB, 1428-octet FPDUs, CRC", 1428+14, rdmap.CRCOn, 0.30, 0.36),
	writeCase("RDMA Write 1 MiB, 1428-octet FPDUs", 1428+14, rdmap.CRCOff, 0, 0.60),
	readCase("RDMA Read 1 MiB, 8 in flight, 64 KiB FPDUs, CRC", rdmap.CRCOn, 0, 0.55),
	readCase("RDMA Read 1 MiB, 8 in flight, 64 KiB FPDUs", rdmap.CRCOff, 0, 0.92),
	{"Sends of 64 octets, 32 in flight, CRC", "1/s", 0, 0.70, rawRecords, sendStream},
}

func writeCase(name string, mulpdu int, crc rdmap.CRCMode, gate, goal float64) engineCase {
	return engineCase{name, "MB/s", gate, goal, rawBulk, func(total int) (float64, error) {
		return bulkWrite(&rdmap.Config{MULPDU: mulpdu, CRC: crc}, total)
	}}
}

func readCase(name string, crc rdmap.CRCMode, gate, goal float64) engineCase {
	return engineCase{name, "MB/s", gate, goal, rawBulk, func(total int) (float64, error) {
		return bulkRead(&rdmap.Config{MULPDU: rdmap.StagMULPDU, CRC: crc}, total)
	}}
}

// Engine measures the engine's bulk speed on one processor in rounds rounds of
// total octets a case, for the cases whose name holds only. Progress, when not nil,
// is called before each round.
func Engine(only string, rounds, total int, progress func(done, of int)) ([]Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var cases []engineCase
	var results []Result
	for _, c := range engineCases {
		if strings.Contains(c.name, only) {
			cases = append(cases, c)
			results = append(results, Result{Name: c.name, Unit: c.unit, Gate: c.gate, Goal: c.goal})
		}
	}
	for round := range rounds {
		for i, c := range cases {
			if progress != nil {
				progress(round*len(cases)+i, rounds*len(cases))
			}
			base, err := c.base(total)
			if err != nil {
				return nil, err
			}
			ours, err := c.ours(total)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			r := &results[i]
			r.Base, r.Ours = append(r.Base, base), append(r.Ours, ours)
		}
	}
	return results, nil
}

// arrival tells that the Send behind the Writes has been delivered, and with it
// all of them placed (RFC 5040 Section 5.5).
type arrival chan struct{}

func (a arrival) HandleRecv(*rdmap.Conn, *rdmap.Message) { a <- struct{}{} }
func (a arrival) HandleClose(*rdmap.Conn, error)         {}

// engine is two engines on a loopback connection, the second in Serve.
type engine struct {
	from, to *rdmap.Conn
	served   chan error
}

func newEngine(ca, cb *rdmap.Config) (*engine, error) {
	a, b, err := tcpPair()
	if err != nil {
		return nil, err
	}
	from, to, err := connect(a, b, ca, cb)
	if err != nil {
		return nil, err
	}
	e := &engine{from, to, make(chan error, 1)}
	go func() { e.served <- to.Serve() }()
	return e, nil
}

func (e *engine) close() {
	e.from.Close()
	e.to.Close()
}

// wait returns when done is told, or the receiver has ended.
func (e *engine) wait(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-e.served:
		return fmt.Errorf("the receiver ended: %w", err)
	}
}

// inFlight posts n work requests, depth at most at a time.
func (e *engine) inFlight(n, depth int, wr rdmap.WR) error {
	ctx := context.Background()
	waiters := make([]rdmap.Waiter, depth)
	for i := range n + depth {
		w := &waiters[i%depth]
		if i >= depth {
			if err := e.from.Wait(ctx, w); err != nil {
				return err
			}
		}
		if i < n {
			w.Reset()
			wr.Done = w
			if err := e.from.Post([]rdmap.WR{wr}); err != nil {
				return err
			}
		}
	}
	return nil
}

// bulkWrite writes total octets by RDMA Write and returns MB/s.
func bulkWrite(cfg *rdmap.Config, total int) (float64, error) {
	done := make(arrival, 1)
	receive := *cfg
	receive.Handler = done
	e, err := newEngine(cfg, &receive)
	if err != nil {
		return 0, err
	}
	defer e.close()
	sink, err := e.to.Register(make([]byte, bulkSize), region.RemoteWrite)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	n := total / bulkSize
	if err := e.inFlight(n, bulkDepth, rdmap.WR{Op: rdmap.OpWrite, Body: make([]byte, bulkSize), STag: sink.STag()}); err != nil {
		return 0, err
	}
	if err := e.from.Post([]rdmap.WR{{Op: rdmap.OpSend}}); err != nil {
		return 0, err
	}
	if err := e.wait(done); err != nil {
		return 0, err
	}
	return float64(n*bulkSize) / time.Since(start).Seconds() / 1e6, nil
}

// bulkRead reads total octets by RDMA Read and returns MB/s.
func bulkRead(cfg *rdmap.Config, total int) (float64, error) {
	e, err := newEngine(cfg, cfg)
	if err != nil {
		return 0, err
	}
	defer e.close()
	source, err := e.to.Register(make([]byte, bulkSize), region.RemoteRead)
	if err != nil {
		return 0, err
	}
	sink, err := e.from.Register(make([]byte, bulkSize), region.ReadSink)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	n := total / bulkSize
	if err := e.inFlight(n, bulkDepth, rdmap.WR{Op: rdmap.OpReadRequest, STag: source.STag(), Sink: sink.STag(), Len: bulkSize}); err != nil {
		return 0, err
	}
	return float64(n*bulkSize) / time.Since(start).Seconds() / 1e6, nil
}

// connect runs the MPA startup of both ends.
func connect(a, b net.Conn, ca, cb *rdmap.Config) (from, to *rdmap.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	from, to = rdmap.Client(a, ca), rdmap.Server(b, cb)
	ready := make(chan error, 1)
	go func() { ready <- to.Handshake(ctx) }()
	err = from.Handshake(ctx)
	if e := <-ready; err == nil {
		err = e
	}
	if err != nil {
		from.Close()
		to.Close()
		return nil, nil, err
	}
	return from, to, nil
}
