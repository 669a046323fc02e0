package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/stag-rdma/stag/xdr"
)

// The baseline of the 64-caller benchmark: ONC RPC over TCP as it is usually
// written, with a reader goroutine and a map of channels in the client and a
// goroutine for every request in the server.

const maxRecord = 1 << 16

func readRecord(r *bufio.Reader) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r, mark[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(mark[:]) &^ (1 << 31)
	if n > maxRecord {
		return nil, errors.New("bench: record too long")
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(r, msg)
	return msg, err
}

// serveRecords echoes the arguments of every call, with a goroutine per request.
func serveRecords(c net.Conn) {
	defer c.Close()
	var mu sync.Mutex
	r := bufio.NewReaderSize(c, 1<<16)
	for {
		msg, err := readRecord(r)
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
			out = xdr.AppendReply(out, &xdr.ReplyHeader{XID: h.XID})
			out = append(out, args...)
			mu.Lock()
			defer mu.Unlock()
			_, _ = c.Write(out) // a broken connection shows at the reader
		}()
	}
}

type recordClient struct {
	c    net.Conn
	mu   sync.Mutex
	next uint32
	wait map[uint32]chan []byte
}

func newRecordClient(c net.Conn) *recordClient {
	cl := &recordClient{c: c, wait: make(map[uint32]chan []byte)}
	go cl.read()
	return cl
}

func (cl *recordClient) read() {
	r := bufio.NewReaderSize(cl.c, 1<<16)
	for {
		msg, err := readRecord(r)
		if err != nil || len(msg) < 4 {
			cl.mu.Lock()
			for _, ch := range cl.wait {
				close(ch)
			}
			cl.wait = nil
			cl.mu.Unlock()
			return
		}
		xid := binary.BigEndian.Uint32(msg)
		cl.mu.Lock()
		ch := cl.wait[xid]
		delete(cl.wait, xid)
		cl.mu.Unlock()
		if ch != nil {
			ch <- msg
		}
	}
}

// call sends one call with args and waits for its reply.
func (cl *recordClient) call(args []byte) error {
	ch := make(chan []byte, 1)
	cl.mu.Lock()
	if cl.wait == nil {
		cl.mu.Unlock()
		return net.ErrClosed
	}
	cl.next++
	h := xdr.CallHeader{XID: cl.next, RPCVers: 2, Prog: benchProg, Vers: 1, Proc: procEcho}
	cl.wait[h.XID] = ch
	out := xdr.AppendRecordMark(make([]byte, 0, 4+40+len(args)), 40+len(args), true)
	out = append(xdr.AppendCall(out, &h), args...)
	_, err := cl.c.Write(out)
	cl.mu.Unlock()
	if err != nil {
		return err
	}
	if _, ok := <-ch; !ok {
		return net.ErrClosed
	}
	return nil
}
