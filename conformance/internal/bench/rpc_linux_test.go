package bench_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

const (
	benchProg = 0x20000099
	// Octets of a NULL call and of its reply as FPDUs: 28 of RPC-over-RDMA header, 40 (24) of RPC header, 24 of
	// DDP and MPA; and of a Send of sendSize.
	nullCall, nullReply, sendFPDU = 28 + 40 + 24, 28 + 24 + 24, sendSize + 24
	echoArgs                      = 100 // octets of arguments of the callers
	callers                       = 64
	idleCount                     = 500
)

// Procedures of benchProg.
const (
	procNull   = 0
	procEcho   = 1 // returns its arguments
	procMemory = 2 // returns the memory of the process after a collection, in octets
	procItem   = 9 // returns an opaque, by chunks
)

// program is benchProg.
type program struct{}

func (program) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	switch req.Proc {
	case procEcho:
		resp.Results = append(resp.Results, req.Args...)
	case procMemory:
		runtime.GC()
		runtime.GC() // empties the pools, which survive one collection
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		resp.Results = xdr.AppendUint64(resp.Results, m.HeapAlloc+m.StackInuse)
	case procItem:
		d := xdr.NewDecoder(req.Args)
		o := req.Opaque(&d, bulkSize)
		data, err := o.Pull(ctx) // lent until the reply has left
		if d.Err() != nil || err != nil {
			resp.Stat = xdr.GarbageArgs
			return
		}
		resp.AppendItem(data)
	}
}

// echoConfig is that of both ends: the opaque of procItem is eligible, as argument and as result.
func echoConfig(crc transport.CRCMode) *transport.Config {
	echo := chunks.Row{Prog: benchProg, Vers: 1, Proc: procItem, Arg: chunks.After(), Result: chunks.After()}
	return &transport.Config{Startup: transport.Startup{CRC: crc}, Binding: chunks.Table{echo}}
}

// BenchmarkRPC compares exchanges with another process with those over plain TCP.
func BenchmarkRPC(b *testing.B) {
	row(b, "Send of 64 octets and its answer, two processes", "tcp", exchange("ping", sendFPDU, sendFPDU), pingPong)
	row(b, "NULL call, two processes", "tcp", exchange("echo", nullCall, nullReply), nullCalls)
	row(b, "64 callers, one connection", "records", recordCallers, rdmaCallers)
	row(b, "echo of 1 MiB by chunks, against records", "records", recordEcho, chunkEcho("chunks-bare", transport.CRCOff))
	row(b, "echo of 1 MiB by chunks, CRC, against records", "records", recordEcho, chunkEcho("chunks", transport.CRCOn))
	b.Run("idle server connection/stag", idle)
}

// ponger answers every Send with one of the same size.
type ponger struct{ wrs [1]verbs.WR }

func (p *ponger) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	p.wrs[0] = verbs.WR{Op: verbs.OpSend, Body: m.Data}
	_ = c.Post(p.wrs[:]) // a broken connection shows at the other end
}
func (p *ponger) HandleClose(*rdmap.Conn, error) {}

func servePong(nc net.Conn) {
	c := rdmap.Server(nc, &rdmap.Config{Handler: new(ponger)})
	defer c.Close()
	if c.Handshake(context.Background()) == nil {
		_ = c.Serve() // the other end hangs up
	}
}

// pinger completes one wait for each Send that comes.
type pinger struct{ w rdmap.Waiter }

func (p *pinger) HandleRecv(c *rdmap.Conn, _ *verbs.Message) {
	c.PostRecv(1)
	p.w.Complete(nil)
}
func (p *pinger) HandleClose(*rdmap.Conn, error) {}

func pingPong(b *testing.B) {
	p := new(pinger)
	c := rdmap.Client(dial(b, thePeer(b).Addr["pong"]), &rdmap.Config{Handler: p})
	defer c.Close()
	check(b, c.Handshake(b.Context()))
	wrs := []verbs.WR{{Op: verbs.OpSend, Body: make([]byte, sendSize)}}
	for b.Loop() {
		p.w.Reset()
		check(b, c.Post(wrs))
		check(b, c.Wait(context.Background(), &p.w))
	}
}

func client(b *testing.B, service string, cfg *transport.Config) *transport.Client {
	cl, err := transport.NewClient(b.Context(), dial(b, thePeer(b).Addr[service]), cfg)
	check(b, err)
	b.Cleanup(func() { cl.Close() })
	return cl
}

func nullCalls(b *testing.B) {
	cl, call := client(b, "rdma", nil), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procNull}
	var reply rpc.Reply
	for b.Loop() {
		check(b, cl.Do(context.Background(), call, &reply))
		reply.Release()
	}
}

func rdmaCallers(b *testing.B) {
	cl, args := client(b, "rdma", nil), make([]byte, echoArgs)
	call := rpc.Call{Prog: benchProg, Vers: 1, Proc: procEcho, Args: args}
	var calls [callers]struct {
		call  rpc.Call
		reply rpc.Reply
	}
	for i := range calls {
		calls[i].call = call
	}
	among(b, callers, func(i int) error {
		c := &calls[i]
		defer c.reply.Release()
		err := cl.Do(context.Background(), &c.call, &c.reply)
		if err == nil && len(c.reply.Results) != echoArgs {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// The baseline of rdmaCallers is ONC RPC over TCP as it is usually written: a reader goroutine and a map of
// channels in the client, a goroutine for every request in the server.

func readRecord(r io.Reader, msg []byte) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r, mark[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(mark[:]) &^ (1 << 31))
	if msg == nil && n <= 1<<16 {
		msg = make([]byte, n)
	}
	if n > len(msg) {
		return nil, errors.New("record too long")
	}
	_, err := io.ReadFull(r, msg[:n])
	return msg[:n], err
}

func serveRecords(c net.Conn) {
	defer c.Close()
	var mu sync.Mutex
	r := bufio.NewReaderSize(c, 1<<16)
	for {
		msg, err := readRecord(r, nil)
		if err != nil {
			return
		}
		go func() {
			d := xdr.NewDecoder(msg)
			var h xdr.CallHeader
			if h.Parse(&d) != nil {
				return
			}
			args := d.Rest()
			out := xdr.AppendRecordMark(make([]byte, 0, 4+24+len(args)), 24+len(args), true)
			out = append(xdr.AppendReply(out, &xdr.ReplyHeader{XID: h.XID}), args...)
			mu.Lock()
			defer mu.Unlock()
			_, _ = c.Write(out) // a broken connection shows at the reader
		}()
	}
}

func recordCallers(b *testing.B) {
	c, args := dial(b, thePeer(b).Addr["records"]), make([]byte, echoArgs)
	var mu sync.Mutex
	wait, next := make(map[uint32]chan []byte), uint32(0)
	go func() {
		r := bufio.NewReaderSize(c, 1<<16)
		for {
			msg, err := readRecord(r, nil)
			mu.Lock()
			if err != nil || len(msg) < 4 {
				for _, ch := range wait {
					close(ch)
				}
				wait = nil
				mu.Unlock()
				return
			}
			xid := binary.BigEndian.Uint32(msg)
			ch := wait[xid]
			delete(wait, xid)
			mu.Unlock()
			ch <- msg
		}
	}()
	among(b, callers, func(int) error {
		ch := make(chan []byte, 1)
		mu.Lock()
		if wait == nil {
			mu.Unlock()
			return net.ErrClosed
		}
		next++
		h := xdr.CallHeader{XID: next, RPCVers: 2, Prog: benchProg, Vers: 1, Proc: procEcho}
		wait[h.XID] = ch
		out := xdr.AppendRecordMark(make([]byte, 0, 4+40+len(args)), 40+len(args), true)
		_, err := c.Write(append(xdr.AppendCall(out, &h), args...))
		mu.Unlock()
		if _, ok := <-ch; err == nil && !ok {
			err = net.ErrClosed
		}
		return err
	})
}

func chunkEcho(service string, crc transport.CRCMode) func(*testing.B) {
	return func(b *testing.B) {
		cl := client(b, service, echoConfig(crc))
		call := &rpc.Call{
			Prog: benchProg, Vers: 1, Proc: procItem,
			Args: xdr.AppendUint32(nil, bulkSize), Item: make([]byte, bulkSize), ItemPos: 4,
			Sink: make([]byte, bulkSize), MaxResults: 4,
		}
		var reply rpc.Reply
		b.SetBytes(bulkSize)
		for b.Loop() {
			check(b, cl.Do(context.Background(), call, &reply))
			if !reply.Placed || len(reply.Item) != bulkSize {
				b.Fatal("the item came back by no chunk")
			}
			reply.Release()
		}
	}
}

// recordHead is the RPC header of either direction, octets.
const recordHead = 40

// serveBulkRecords is the baseline of chunkEcho: records echoed one after the other, in memory that is reused.
func serveBulkRecords(c net.Conn) {
	defer c.Close()
	r, buf := bufio.NewReaderSize(c, 4<<10), make([]byte, recordHead+bulkSize)
	for {
		msg, err := readRecord(r, buf)
		if err != nil {
			return
		}
		out := net.Buffers{xdr.AppendRecordMark(nil, len(msg), true), msg}
		if _, err := out.WriteTo(c); err != nil {
			return
		}
	}
}

func recordEcho(b *testing.B) {
	c := dial(b, thePeer(b).Addr["bulk"])
	r := bufio.NewReaderSize(c, 4<<10)
	head := append(xdr.AppendRecordMark(nil, recordHead+bulkSize, true), make([]byte, recordHead)...)
	item, buf := make([]byte, bulkSize), make([]byte, recordHead+bulkSize)
	b.SetBytes(bulkSize)
	for b.Loop() {
		out := net.Buffers{head, item}
		_, err := out.WriteTo(c)
		check(b, err)
		msg, err := readRecord(r, buf)
		check(b, err)
		if len(msg) != len(buf) {
			b.Fatal("a short record")
		}
	}
}

// idle reports the memory that the other process holds for a connection which made one call and then rests.
func idle(b *testing.B) {
	memory := func() float64 {
		var reply rpc.Reply
		defer reply.Release()
		check(b, client(b, "rdma", nil).Do(b.Context(), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procMemory}, &reply))
		d := xdr.NewDecoder(reply.Results)
		return float64(d.Uint64())
	}
	for b.Loop() {
		before := memory()
		for range idleCount {
			var reply rpc.Reply
			check(b, client(b, "rdma", nil).Do(b.Context(), &rpc.Call{Prog: benchProg, Vers: 1, Proc: procNull}, &reply))
			reply.Release()
		}
		b.ReportMetric((memory()-before)/idleCount/1024, "KiB/conn")
	}
}
