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
	bulkDepth = 8       // Writes in flight
)

// bulkCase is one line of the engine's report.
type bulkCase struct {
	name   string
	mulpdu int // largest ULPDU, octets
	crc    rdmap.CRCMode
	gate   float64
}

var bulkCases = []bulkCase{
	{"RDMA Write 1 MiB, 64 KiB FPDUs, CRC", rdmap.StagMULPDU, rdmap.CRCOn, 0.45},
	{"RDMA Write 1 MiB, 64 KiB FPDUs", rdmap.StagMULPDU, rdmap.CRCOff, 0.70},
	{"RDMA Write 1 MiB, 1428-octet FPDUs, CRC", 1428 + 14, rdmap.CRCOn, 0.30},
}

// Engine measures the engine's bulk speed on one processor in rounds rounds of
// total octets a case, for the cases whose name holds only. Progress, when not nil,
// is called before each round.
func Engine(only string, rounds, total int, progress func(done, of int)) ([]Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var cases []bulkCase
	var results []Result
	for _, c := range bulkCases {
		if strings.Contains(c.name, only) {
			cases = append(cases, c)
			results = append(results, Result{Name: c.name, Unit: "MB/s", Gate: c.gate})
		}
	}
	for round := range rounds {
		for i, c := range cases {
			if progress != nil {
				progress(round*len(cases)+i, rounds*len(cases))
			}
			base, err := rawBulk(bulkSize, total)
			if err != nil {
				return nil, err
			}
			ours, err := bulkWrite(c, total)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			r := &results[i]
			r.Base, r.Ours = append(r.Base, base/1e6), append(r.Ours, ours/1e6)
		}
	}
	return results, nil
}

// arrival tells that the Send behind the Writes has been delivered, and with it
// all of them placed (RFC 5040 Section 5.5).
type arrival chan struct{}

func (a arrival) HandleRecv(*rdmap.Conn, *rdmap.Message) { a <- struct{}{} }
func (a arrival) HandleClose(*rdmap.Conn, error)         {}

// bulkWrite writes total octets by RDMA Write and returns octets per second.
func bulkWrite(c bulkCase, total int) (float64, error) {
	a, b, err := tcpPair()
	if err != nil {
		return 0, err
	}
	done := make(arrival, 1)
	from, to, err := connect(a, b,
		&rdmap.Config{MULPDU: c.mulpdu, CRC: c.crc},
		&rdmap.Config{MULPDU: c.mulpdu, CRC: c.crc, Handler: done})
	if err != nil {
		return 0, err
	}
	defer from.Close()
	defer to.Close()
	served := make(chan error, 1)
	go func() { served <- to.Serve() }()

	sink, err := to.Register(make([]byte, bulkSize), region.RemoteWrite)
	if err != nil {
		return 0, err
	}
	stag := sink.STag()
	data := make([]byte, bulkSize)
	var waiters [bulkDepth]rdmap.Waiter
	for i := range waiters {
		waiters[i].Reset()
	}
	ctx := context.Background()
	start := time.Now()
	for i := range total / bulkSize {
		w := &waiters[i%bulkDepth]
		if i >= bulkDepth {
			if err := from.Wait(ctx, w); err != nil {
				return 0, err
			}
			w.Reset()
		}
		if err := from.Post([]rdmap.WR{{Op: rdmap.OpWrite, Body: data, STag: stag, Done: w}}); err != nil {
			return 0, err
		}
	}
	if err := from.Post([]rdmap.WR{{Op: rdmap.OpSend}}); err != nil {
		return 0, err
	}
	select {
	case <-done:
	case err := <-served:
		return 0, fmt.Errorf("the receiver ended: %w", err)
	}
	return float64(total/bulkSize*bulkSize) / time.Since(start).Seconds(), nil
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
