package bench

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	bulkSize  = 1 << 20 // octets of one RDMA Write, and of one write of plain TCP
	bulkDepth = 8       // Writes or Reads in flight
)

// engineCases measure total octets per round, as MB/s or messages per second.
func engineCases(total int) []measure.Case {
	bulk := func(name string, gate, goal float64, ours func() (float64, error)) measure.Case {
		return measure.Case{
			Result: Result{Name: "RDMA " + name, Unit: "MB/s", Gate: gate, Goal: goal},
			Round:  measure.Pair(func() (float64, error) { return rawBulk(total) }, ours),
		}
	}
	write := func(mulpdu int, crc rdmap.CRCMode) func() (float64, error) {
		return func() (float64, error) {
			return bulkWrite(&rdmap.Config{Startup: rdmap.Startup{MULPDU: mulpdu, CRC: crc}}, total)
		}
	}
	read := func(crc rdmap.CRCMode) func() (float64, error) {
		return func() (float64, error) {
			return bulkRead(&rdmap.Config{Startup: rdmap.Startup{MULPDU: rdmap.StagMULPDU, CRC: crc}}, total)
		}
	}
	const narrow = 1428 + 14 // MULPDU of FPDUs of 1428 octets
	return []measure.Case{
		bulk("Write 1 MiB, 64 KiB FPDUs, CRC", 0.45, 0.50, write(rdmap.StagMULPDU, rdmap.CRCOn)),
		bulk("Write 1 MiB, 64 KiB FPDUs", 0.70, 0.76, write(rdmap.StagMULPDU, rdmap.CRCOff)),
		bulk("Write 1 MiB, 1428-octet FPDUs, CRC", 0.30, 0.36, write(narrow, rdmap.CRCOn)),
		bulk("Write 1 MiB, 1428-octet FPDUs", 0, 0.60, write(narrow, rdmap.CRCOff)),
		bulk("Read 1 MiB, 8 in flight, 64 KiB FPDUs, CRC", 0, 0.55, read(rdmap.CRCOn)),
		bulk("Read 1 MiB, 8 in flight, 64 KiB FPDUs", 0, 0.92, read(rdmap.CRCOff)),
		{
			Result: Result{Name: "Sends of 64 octets, 32 in flight, CRC", Unit: "1/s", Goal: 0.70},
			Round: measure.Pair(
				func() (float64, error) { return rawRecords(total) },
				func() (float64, error) { return sendStream(total) }),
		},
	}
}

// Engine measures the engine's bulk speed on one processor, in rounds rounds of total octets per case, for
// the cases whose names contain only. If progress is not nil, it is called before each round.
func Engine(only string, rounds, total int, progress func(done, of int)) ([]Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return measure.Run(engineCases(total), only, rounds, progress)
}

// arrival reports that the Send after the Writes has been delivered, so that all of them are placed (RFC
// 5040 Section 5.5).
type arrival chan struct{}

func (a arrival) HandleRecv(*rdmap.Conn, *verbs.Message) { a <- struct{}{} }
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

// wait returns when done is signalled, or the receiver has ended.
func (e *engine) wait(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-e.served:
		return fmt.Errorf("the receiver ended: %w", err)
	}
}

// inFlight posts n work requests, depth at most at a time.
func (e *engine) inFlight(n, depth int, wr verbs.WR) error {
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
			if err := e.from.Post([]verbs.WR{wr}); err != nil {
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
	if err := e.inFlight(n, bulkDepth, verbs.WR{Op: verbs.OpWrite, Body: make([]byte, bulkSize), STag: sink.STag()}); err != nil {
		return 0, err
	}
	if err := e.from.Post([]verbs.WR{{Op: verbs.OpSend}}); err != nil {
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
	if err := e.inFlight(n, bulkDepth, verbs.WR{Op: verbs.OpReadRequest, STag: source.STag(), Sink: sink.STag(), Len: bulkSize}); err != nil {
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
