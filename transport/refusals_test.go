package transport_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// rpcRefusals are call messages that RPC itself refuses (RFC 5531 Section 9), with the
// answer; the zero ReplyHeader stands for none.
func rpcRefusals() []struct {
	name string
	msg  []byte
	want xdr.ReplyHeader
} {
	call := func(change func(h *xdr.CallHeader)) []byte {
		h := xdr.CallHeader{XID: 5, RPCVers: 2, Prog: testProg, Vers: testVers}
		change(&h)
		return xdr.AppendCall(nil, &h)
	}
	auth := func(s xdr.AuthStat) xdr.ReplyHeader {
		return xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: s}
	}
	return []struct {
		name string
		msg  []byte
		want xdr.ReplyHeader
	}{
		{"RPC version 1", call(func(h *xdr.CallHeader) { h.RPCVers = 1 }), xdr.ReplyHeader{Denied: true, Reject: xdr.RPCMismatch, Low: 2, High: 2}},
		{"credential of 401 octets", append(words(5, 0, 2, testProg, testVers, 0, 1, 401), make([]byte, 412)...), auth(xdr.AuthBadCred)},
		{"verifier of 401 octets", append(words(5, 0, 2, testProg, testVers, 0, 0, 0, 0, 401), make([]byte, 404)...), auth(xdr.AuthBadVerf)},
		{"verifier with a body", call(func(h *xdr.CallHeader) { h.Verf.Body = []byte{1} }), auth(xdr.AuthBadVerf)},
		{"RPCSEC_GSS", call(func(h *xdr.CallHeader) { h.Cred = gssCred(1) }), auth(xdr.AuthBadCred)},
		{"unknown program", call(func(h *xdr.CallHeader) { h.Prog = 1 }), xdr.ReplyHeader{Accept: xdr.ProgUnavail}},
		{"unknown version", call(func(h *xdr.CallHeader) { h.Vers = 9 }), xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: testVers, High: testVers}},
		{"unknown procedure", call(func(h *xdr.CallHeader) { h.Proc = 99 }), xdr.ReplyHeader{Accept: xdr.ProcUnavail}},
		{"arguments missing", call(func(h *xdr.CallHeader) { h.Proc = procEcho }), xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"arguments of 2^32-1 octets", append(call(func(h *xdr.CallHeader) { h.Proc = procEcho }), 0xff, 0xff, 0xff, 0xff), xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
	}
}

// TestRPCRefusalsBothTransports gets the same answer over RDMA and over record marks.
// Auth bodies beyond 400 octets are no decodable call: RPC-over-RDMA says ERR_CHUNK
// (RFC 8166 Section 4.5.2) where RPC alone can name the field.
func TestRPCRefusalsBothTransports(t *testing.T) {
	_, rdma := startServer(t, newEcho(), nil)
	p := rawClient(t, rdma, nil)
	c, rr := rawStream(t, newEcho())
	for _, tt := range rpcRefusals() {
		p.send(header(rpcrdma.Header{XID: 5}), tt.msg)
		h, over := p.recv()
		must(c.Write(append(xdr.AppendRecordMark(nil, len(tt.msg), true), tt.msg...)))(t)
		tcp, err := rr.Next(nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for network, b := range map[string][]byte{"rdma": over, "tcp": tcp} {
			if network == "rdma" && strings.Contains(tt.name, "401") {
				if h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
					t.Errorf("%s over rdma: answer %+v", tt.name, h)
				}
				continue
			}
			var r xdr.ReplyHeader
			d := xdr.NewDecoder(b)
			if err := r.Parse(&d); err != nil || r.XID != 5 {
				t.Errorf("%s over %s: XID %d, %v", tt.name, network, r.XID, err)
			}
			r.Verf = xdr.Auth{}
			if g, w := r.Err(), tt.want.Err(); g == nil || g.Error() != w.Error() || d.Len() != 0 {
				t.Errorf("%s over %s: %v and %d octets, want %v", tt.name, network, g, d.Len(), w)
			}
		}
	}
}

// rawStream connects to a server of record-marked RPC.
func rawStream(t *testing.T, h rpc.Handler) (net.Conn, *xdr.RecordReader) {
	t.Helper()
	s := &transport.Server{Handler: h}
	nc, served := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeStreamConn(served)
	}()
	t.Cleanup(func() { nc.Close(); <-done; s.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc, xdr.NewRecordReader(nc, 0)
}

// TestBadRecords: what is not a call gets no reply over TCP and the stream continues; a
// record that is too large, or never grows, ends it (RFC 5531 Section 11).
func TestBadRecords(t *testing.T) {
	null := rpcCall(7, procNull)
	good := markedRecord(null)
	record := func(b []byte) []byte { return markedRecord(b) }
	var octets []byte
	for _, v := range null {
		octets = append(xdr.AppendRecordMark(octets, 1, false), v)
	}
	for _, tt := range []struct {
		name string
		send []byte
		ends bool
		more int // replies beyond the one to good
	}{
		{"nothing in it", record(nil), false, 0},
		{"three octets", record([]byte{1, 2, 3}), false, 0},
		{"a reply", record(rpcReply(1)), false, 0},
		{"message type 7", record(words(1, 7, 2, 0, 0, 0, 0, 0, 0, 0)), false, 0},
		{"a header cut off", record(null[:30]), false, 0},
		{"fragments of one octet", append(octets, xdr.AppendRecordMark(nil, 0, true)...), false, 1},
		{"16 empty fragments", append(make([]byte, 4*16), good...), false, 1},
		{"17 empty fragments", make([]byte, 4*17), true, 0},
		{"a fragment of 2^31-1", xdr.AppendRecordMark(nil, 1<<31-1, true), true, 0},
		{"above MaxPayload in two", append(append(xdr.AppendRecordMark(nil, 8, false), make([]byte, 8)...), xdr.AppendRecordMark(nil, transport.DefaultMaxPayload, true)...), true, 0},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, rr := rawStream(t, newEcho())
			go c.Write(append(bytes.Clone(tt.send), good...)) // fails when the server ends it
			for range tt.more + 1 {
				b, err := rr.Next(nil)
				if tt.ends {
					if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("answer %x, %v", b, err)
					}
					return
				}
				if xid, _, _ := xdr.PeekXID(b); err != nil || xid != 7 {
					t.Errorf("answer %x, %v", b, err)
				}
			}
		})
	}
}
