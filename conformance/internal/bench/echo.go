package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// echoItem answers procItem: an opaque by read chunk, and back by write chunk.
func echoItem(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	o := req.Opaque(&d, bulkSize)
	data, err := o.Pull(ctx) // lent until the reply has left
	if d.Err() != nil || err != nil {
		resp.Stat = xdr.GarbageArgs
		return
	}
	resp.AppendItem(data)
}

// echoConfig is the configuration of both ends: the opaque of procItem is eligible, as argument and as result.
func echoConfig(crc transport.CRCMode) *transport.Config {
	echo := chunks.Row{Prog: benchProg, Vers: 1, Proc: procItem, Arg: chunks.After(), Result: chunks.After()}
	return &transport.Config{Startup: transport.Startup{CRC: crc}, Binding: chunks.Table{echo}}
}

// chunkEcho makes calls that echo bulkSize octets for dur, one after the other, and returns MB/s in one
// direction.
func chunkEcho(addr string, crc transport.CRCMode, dur time.Duration) (float64, error) {
	cl, err := dialRDMA(addr, echoConfig(crc))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	call := &rpc.Call{
		Prog: benchProg, Vers: 1, Proc: procItem,
		Args: xdr.AppendUint32(nil, bulkSize), Item: make([]byte, bulkSize), ItemPos: 4,
		Sink: make([]byte, bulkSize), MaxResults: 4,
	}
	var reply rpc.Reply
	return echoRate(dur, func() error {
		defer reply.Release()
		err := cl.Do(context.Background(), call, &reply)
		if err == nil && (!reply.Placed || len(reply.Item) != bulkSize) {
			err = errors.New("bench: the item came back by no chunk")
		}
		return err
	})
}

// echoRate runs f for dur and returns MB/s.
func echoRate(dur time.Duration, f func() error) (float64, error) {
	if err := f(); err != nil { // makes the memory that is reused
		return 0, err
	}
	n, start := 0, time.Now()
	for time.Since(start) < dur {
		if err := f(); err != nil {
			return 0, err
		}
		n++
	}
	return float64(n*bulkSize) / time.Since(start).Seconds() / 1e6, nil
}

// recordHeader is a record mark and an RPC header of either direction, octets.
const recordHeader = 4 + 40

// serveBulkRecords is the baseline: record-marked echo as fast as we can write it, one record after the
// other, in memory that is reused, without a copy.
func serveBulkRecords(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 4<<10)
	msg := make([]byte, recordHeader+bulkSize)
	for {
		n, err := readBulkRecord(r, msg)
		if err != nil {
			return
		}
		if _, err := c.Write(msg[:n]); err != nil {
			return
		}
	}
}

// readBulkRecord reads a record, including its mark, into msg.
func readBulkRecord(r io.Reader, msg []byte) (int, error) {
	if _, err := io.ReadFull(r, msg[:4]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(msg) &^ (1 << 31))
	if n > len(msg)-4 {
		return 0, errors.New("bench: record too long")
	}
	_, err := io.ReadFull(r, msg[4:4+n])
	return 4 + n, err
}

// recordEcho is chunkEcho over record-marked TCP.
func recordEcho(addr string, dur time.Duration) (float64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	r := bufio.NewReaderSize(c, 4<<10)
	head := xdr.AppendRecordMark(nil, recordHeader-4+bulkSize, true)
	head = append(head, make([]byte, recordHeader-4)...)
	item, msg := make([]byte, bulkSize), make([]byte, recordHeader+bulkSize)
	return echoRate(dur, func() error {
		out := net.Buffers{head, item}
		if _, err := out.WriteTo(c); err != nil {
			return err
		}
		n, err := readBulkRecord(r, msg)
		if err == nil && n != recordHeader+bulkSize {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

func echoRound(p Peer, crc transport.CRCMode, dur time.Duration) (base, ours float64, err error) {
	if base, err = recordEcho(p.Bulk, dur); err != nil {
		return 0, 0, err
	}
	addr := p.Chunks
	if crc == transport.CRCOff {
		addr = p.ChunksBare
	}
	ours, err = chunkEcho(addr, crc, dur)
	return base, ours, err
}
