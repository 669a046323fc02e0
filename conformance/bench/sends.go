package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/stag-rdma/stag/rdmap"
)

const (
	sendSize  = 64  // octets of a message
	sendBatch = 32  // messages in flight, posted and completed together
	sendShare = 512 // octets of a round's total for which one message is sent
)

// counter counts messages and tells when the last has come.
type counter struct {
	left int
	done chan struct{}
}

func (c *counter) HandleRecv(*rdmap.Conn, *rdmap.Message) {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
func (c *counter) HandleClose(*rdmap.Conn, error) {}

// sendStream sends messages in batches and returns messages a second.
func sendStream(total int) (float64, error) {
	batches := max(1, total/sendShare/sendBatch)
	n := batches * sendBatch
	got := &counter{n, make(chan struct{})}
	e, err := newEngine(&rdmap.Config{CRC: rdmap.CRCOn}, &rdmap.Config{CRC: rdmap.CRCOn, Handler: got, Recvs: n})
	if err != nil {
		return 0, err
	}
	defer e.close()
	var w rdmap.Waiter
	wrs := make([]rdmap.WR, sendBatch)
	for i := range wrs {
		wrs[i] = rdmap.WR{Op: rdmap.OpSend, Body: make([]byte, sendSize)}
	}
	wrs[sendBatch-1].Done = &w
	start := time.Now()
	for range batches {
		w.Reset()
		if err := e.from.Post(wrs); err != nil {
			return 0, err
		}
		if err := e.from.Wait(context.Background(), &w); err != nil {
			return 0, err
		}
	}
	if err := e.wait(got.done); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// rawRecords is the same with records on plain TCP: a length and as many octets, a
// batch a write.
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
	go func() { done <- readRecords(b, n) }()
	var batch []byte
	for range sendBatch {
		batch = binary.BigEndian.AppendUint32(batch, sendSize)
		batch = append(batch, make([]byte, sendSize)...)
	}
	start := time.Now()
	for range batches {
		if _, err := a.Write(batch); err != nil {
			return 0, err
		}
	}
	if err := <-done; err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// readRecords reads n records into memory that is used again.
func readRecords(c io.Reader, n int) error {
	r := bufio.NewReaderSize(c, 256<<10)
	msg := make([]byte, sendSize)
	for range n {
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
