package bench_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	bulkSize  = 1 << 20 // octets of one RDMA Write, and of one write of plain TCP
	bulkDepth = 8       // Writes or Reads in flight
	sendSize  = 64      // octets of a message
	sendBatch = 32      // messages in flight, posted and completed together
)

// BenchmarkEngine compares the engine with plain TCP, both ends of either on one processor.
func BenchmarkEngine(b *testing.B) {
	const wide, narrow = rdmap.StagMULPDU, 1428 + 14 // the second is the MULPDU of FPDUs of 1428 octets
	for _, r := range []struct {
		name   string
		mulpdu int
		crc    rdmap.CRCMode
		run    func(*testing.B, *rdmap.Config)
	}{
		{"RDMA Write 1 MiB, 64 KiB FPDUs, CRC", wide, rdmap.CRCOn, bulkWrite},
		{"RDMA Write 1 MiB, 64 KiB FPDUs", wide, rdmap.CRCOff, bulkWrite},
		{"RDMA Write 1 MiB, 1428-octet FPDUs, CRC", narrow, rdmap.CRCOn, bulkWrite},
		{"RDMA Write 1 MiB, 1428-octet FPDUs", narrow, rdmap.CRCOff, bulkWrite},
		{"RDMA Read 1 MiB, 8 in flight, 64 KiB FPDUs, CRC", wide, rdmap.CRCOn, bulkRead},
		{"RDMA Read 1 MiB, 8 in flight, 64 KiB FPDUs", wide, rdmap.CRCOff, bulkRead},
	} {
		row(b, r.name, "tcp", rawBulk, func(b *testing.B) {
			r.run(b, &rdmap.Config{Startup: rdmap.Startup{MULPDU: r.mulpdu, CRC: r.crc}})
		})
	}
	row(b, "Sends of 64 octets, 32 in flight, CRC", "tcp", rawRecords, sendStream)
}

// pairOn returns the two ends of a loopback connection, and leaves one processor.
func pairOn(b *testing.B) (from, to net.Conn) {
	procs := runtime.GOMAXPROCS(1)
	b.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	lc := net.ListenConfig{Control: reno}
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	check(b, err)
	defer l.Close()
	from = dial(b, l.Addr().String()) // the backlog takes it
	to, err = l.Accept()
	check(b, err)
	b.Cleanup(func() { to.Close() })
	return from, to
}

// engines returns two connected engines, the second in Serve, whose end it tells.
func engines(b *testing.B, ca, cb *rdmap.Config) (from, to *rdmap.Conn, ended chan error) {
	a, c := pairOn(b)
	from, to = rdmap.Client(a, ca), rdmap.Server(c, cb)
	ready := make(chan error, 1)
	go func() { ready <- to.Handshake(b.Context()) }()
	check(b, from.Handshake(b.Context()))
	check(b, <-ready)
	ended = make(chan error, 1)
	go func() { ended <- to.Serve() }()
	b.Cleanup(func() {
		from.Close()
		to.Close()
	})
	return from, to, ended
}

// arrival reports the Send after the Writes, when all of them are placed (RFC 5040 Section 5.5).
type arrival chan struct{}

func (a arrival) HandleRecv(*rdmap.Conn, *verbs.Message) { a <- struct{}{} }
func (a arrival) HandleClose(*rdmap.Conn, error)         {}

// inFlight posts b.N work requests, bulkDepth at most at a time.
func inFlight(b *testing.B, c *rdmap.Conn, wr verbs.WR) {
	var waiters [bulkDepth]rdmap.Waiter
	for i := range b.N + bulkDepth {
		w := &waiters[i%bulkDepth]
		if i >= bulkDepth && i-bulkDepth < b.N {
			check(b, c.Wait(context.Background(), w))
		}
		if i < b.N {
			w.Reset()
			wr.Done = w
			check(b, c.Post([]verbs.WR{wr}))
		}
	}
}

func bulkWrite(b *testing.B, cfg *rdmap.Config) {
	done, receive := make(arrival, 1), *cfg
	receive.Handler = done
	from, to, ended := engines(b, cfg, &receive)
	sink, err := to.Register(make([]byte, bulkSize), region.RemoteWrite)
	check(b, err)
	b.SetBytes(bulkSize)
	b.ResetTimer()
	inFlight(b, from, verbs.WR{Op: verbs.OpWrite, Body: make([]byte, bulkSize), STag: sink.STag()})
	check(b, from.Post([]verbs.WR{{Op: verbs.OpSend}}))
	select {
	case <-done:
	case err := <-ended:
		b.Fatal("the receiver ended: ", err)
	}
}

func bulkRead(b *testing.B, cfg *rdmap.Config) {
	from, to, _ := engines(b, cfg, cfg)
	source, err := to.Register(make([]byte, bulkSize), region.RemoteRead)
	check(b, err)
	sink, err := from.Register(make([]byte, bulkSize), region.ReadSink)
	check(b, err)
	b.SetBytes(bulkSize)
	b.ResetTimer()
	inFlight(b, from, verbs.WR{Op: verbs.OpReadRequest, STag: source.STag(), Sink: sink.STag(), Len: bulkSize})
}

// rawBulk writes over plain TCP, and is through when the reader has it all.
func rawBulk(b *testing.B) {
	from, to := pairOn(b)
	read := make(chan error, 1)
	go func() {
		buf := make([]byte, bulkSize)
		for n := 0; n < b.N*bulkSize; {
			k, err := to.Read(buf)
			if n += k; err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	buf := make([]byte, bulkSize)
	b.SetBytes(bulkSize)
	b.ResetTimer()
	for range b.N {
		_, err := from.Write(buf)
		check(b, err)
	}
	check(b, <-read)
}

// counter counts messages down.
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

// batches is how many make b.N messages, or a few more.
func batches(b *testing.B) int { return (b.N + sendBatch - 1) / sendBatch }

func sendStream(b *testing.B) {
	n := batches(b) * sendBatch
	got := &counter{n, make(chan struct{})}
	crc := rdmap.Startup{CRC: rdmap.CRCOn}
	from, _, ended := engines(b, &rdmap.Config{Startup: crc},
		&rdmap.Config{Startup: crc, Handler: got, Receives: rdmap.Receives{Count: n}})
	var w rdmap.Waiter
	wrs := make([]verbs.WR, sendBatch)
	for i := range wrs {
		wrs[i] = verbs.WR{Op: verbs.OpSend, Body: make([]byte, sendSize)}
	}
	wrs[sendBatch-1].Done = &w
	b.ResetTimer()
	for range batches(b) {
		w.Reset()
		check(b, from.Post(wrs))
		check(b, from.Wait(context.Background(), &w))
	}
	select {
	case <-got.done:
	case err := <-ended:
		b.Fatal("the receiver ended: ", err)
	}
}

// rawRecords is sendStream on plain TCP: a length and as many octets, a write for each batch.
func rawRecords(b *testing.B) {
	from, to := pairOn(b)
	read := make(chan error, 1)
	go func() {
		r, msg := bufio.NewReaderSize(to, 256<<10), make([]byte, sendSize)
		for range batches(b) * sendBatch {
			var size [4]byte
			_, err := io.ReadFull(r, size[:])
			if err == nil {
				_, err = io.ReadFull(r, msg[:min(binary.BigEndian.Uint32(size[:]), sendSize)])
			}
			if err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	var batch []byte
	for range sendBatch {
		batch = append(binary.BigEndian.AppendUint32(batch, sendSize), make([]byte, sendSize)...)
	}
	b.ResetTimer()
	for range batches(b) {
		_, err := from.Write(batch)
		check(b, err)
	}
	check(b, <-read)
}
