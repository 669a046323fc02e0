package bench

import (
	"context"
	"io"
	"math"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// taker takes messages and answers the last one.
type taker struct{}

func (taker) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	if m.Data[sendSize-1] == 1 {
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend}}) // a broken connection shows at the other end
	}
}
func (taker) HandleClose(*rdmap.Conn, error) {}

// serveDrain is the far end of sendAll.
func serveDrain(nc net.Conn) {
	c := rdmap.Server(nc, &rdmap.Config{Handler: taker{}, Receives: rdmap.Receives{Count: math.MaxInt32}})
	defer c.Close()
	if c.Handshake(context.Background()) == nil {
		_ = c.Serve() // the other end hangs up
	}
}

// serveRecordDrain is the far end of writeRecords.
func serveRecordDrain(c net.Conn) {
	defer c.Close()
	if readRecords(c) == nil {
		_, _ = c.Write([]byte{1}) // a broken connection shows at the other end
	}
}

// sendsRound sends batches of records, and of messages, to the other process and returns how many of each
// per second.
func sendsRound(p Peer, batches int) (base, ours float64, err error) {
	nc, err := dial(p.RecordDrain)
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	start := time.Now()
	if err := writeRecords(nc, batches); err != nil {
		return 0, 0, err
	}
	if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
		return 0, 0, err
	}
	base = float64(batches*sendBatch) / time.Since(start).Seconds()
	ours, err = sendMessages(p.Drain, batches)
	return base, ours, err
}

func sendMessages(addr string, batches int) (rate float64, err error) {
	nc, err := dial(addr)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	answer := new(pinger)
	c := rdmap.Client(nc, &rdmap.Config{Handler: answer})
	defer c.Close()
	if err := c.Handshake(ctx); err != nil {
		return 0, err
	}
	answer.w.Reset()
	start := time.Now()
	if err := sendAll(c, batches); err != nil {
		return 0, err
	}
	if err := c.Wait(ctx, &answer.w); err != nil {
		return 0, err
	}
	return float64(batches*sendBatch) / time.Since(start).Seconds(), nil
}
