package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	sendSize  = 64  // octets of a message
	sendBatch = 32  // messages in flight, posted and completed together
	sendShare = 512 // octets of a round's total per message
)

// counter counts messages and reports when the last one has come.
type counter struct {
	left int
	done chan struct{}
}

func (c *counter) HandleRecv(*rdmap.Conn, *verbs.Message) {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
func (c *counter) HandleClose(*rdmap.Conn, error) {}

// sendStream sends messages in batches and returns messages per second.
func sendStream(total int) (float64, error) {
	batches := max(1, total/sendShare/sendBatch)
	n := batches * sendBatch
	got := &counter{n, make(chan struct{})}
	e, err := newEngine(&rdmap.Config{Startup: rdmap.Startup{CRC: rdmap.CRCOn}}, &rdmap.Config{Startup: rdmap.Startup{CRC: rdmap.CRCOn}, Handler: got, Receives: rdmap.Receives{Count: n}})
	if err != nil {
		return 0, err
	}
	defer e.close()
	start := time.Now()
	if err := sendAll(e.from, batches); err != nil {
		return 0, err
	}
	if err := e.wait(got.done); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// sendAll posts batches of messages, each after the previous one has been written. The last octet of the
// last message is 1, all others are 0.
func sendAll(c *rdmap.Conn, batches int) error {
	var w rdmap.Waiter
	wrs := make([]verbs.WR, sendBatch)
	for i := range wrs {
		wrs[i] = verbs.WR{Op: verbs.OpSend, Body: make([]byte, sendSize)}
	}
	last := &wrs[sendBatch-1]
	last.Done = &w
	for i := range batches {
		if i == batches-1 {
			last.Body[sendSize-1] = 1
		}
		w.Reset()
		if err := c.Post(wrs); err != nil {
			return err
		}
		if err := c.Wait(context.Background(), &w); err != nil {
			return err
		}
	}
	return nil
}

// rawRecords is the same with records on plain TCP: a length and as many octets, one write per batch.
func rawRecords(total int) (float64, error) {
	a, b, err := tcpPair()
	if err != nil {
		return 0, err
	}
	defer a.Close()
	defer b.Close()
	batches := max(1, total/sendShare/sendBatch)
	n := batches * sendBatch
	done := make(chan error, 1)
	go func() { done <- readRecords(b) }()
	start := time.Now()
	if err := writeRecords(a, batches); err != nil {
		return 0, err
	}
	if err := <-done; err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// writeRecords is the counterpart of sendAll.
func writeRecords(c io.Writer, batches int) error {
	var batch []byte
	for range sendBatch {
		batch = binary.BigEndian.AppendUint32(batch, sendSize)
		batch = append(batch, make([]byte, sendSize)...)
	}
	for i := range batches {
		if i == batches-1 {
			batch[len(batch)-1] = 1
		}
		if _, err := c.Write(batch); err != nil {
			return err
		}
	}
	return nil
}

// readRecords reads records, up to the last one, into memory that is reused.
func readRecords(c io.Reader) error {
	r := bufio.NewReaderSize(c, 256<<10)
	msg := make([]byte, sendSize)
	for msg[sendSize-1] == 0 {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, msg[:min(binary.BigEndian.Uint32(size[:]), sendSize)]); err != nil {
			return err
		}
	}
	return nil
}
