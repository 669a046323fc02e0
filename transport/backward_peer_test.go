package transport_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// backwardPrivate is what a client says that takes n backward calls.
func backwardPrivate(n uint16) []byte {
	return rpcrdma.BackwardData{Credits: n}.Append(usualPrivate())
}

// TestBackwardHostileClient: replies that nobody has asked for are dropped, again and again,
// and the server still hears everybody else; a bad reply fails its call only.
func TestBackwardHostileClient(t *testing.T) {
	b := newBacker()
	s, addr := startServer(t, b, backConfig(2, nil))
	p := rawClient(t, addr, rawConfig(backwardPrivate(2), 4096))
	p.send(header(rpcrdma.Header{XID: 7}), rpcCall(7, procMeet))
	p.recv()
	bw := <-b.met
	const many = 500 // far more than receives
	for i := range many {
		p.send(header(rpcrdma.Header{XID: uint32(i)}), rpcReply(uint32(i)))
	}
	p.send(words(9, 1, 8, 4, 2)) // RDMA_ERROR
	p.send(header(rpcrdma.Header{XID: 8}), rpcCall(8, procNull))
	if h, _ := p.recv(); h.XID != 8 {
		t.Errorf("answer to %d", h.XID)
	}
	// The watchdog may have let another goroutine read on past one of them.
	waitFor(t, "all are dropped", func() bool { return s.Stats().Dropped == many+1 })
	for _, tc := range []struct {
		name  string
		reply func(xid uint32) []byte
		want  rpc.Reason
	}{
		{"ERR_CHUNK", func(xid uint32) []byte { return words(xid, 1, 0xffffffff, 4, 2) }, rpc.ReasonChunk},
		{"half a header", func(xid uint32) []byte { return append(header(rpcrdma.Header{XID: xid}), rpcReply(xid)[:12]...) }, rpc.ReasonBadReply},
	} {
		got := make(chan error, 1)
		go func() { got <- try(t, backCaller{bw}, &nullCall) }()
		h, _ := p.recv()
		p.send(tc.reply(h.XID))
		err := <-got
		if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	back := connOf(s).Requester
	if st := back.Stats(); st.Credits != 2 || st.InFlight != 0 {
		t.Errorf("an RDMA_ERROR's credits were taken for a grant, or a credit is lost: %+v", st)
	}
}

// TestBackwardRecords: a record-marked server behind Listen calls back by writing a call,
// and reads the reply.
func TestBackwardRecords(t *testing.T) {
	for _, tc := range []struct {
		name           string
		server, client int
		want           string
	}{
		{"both", 4, 4, "0000002a"},
		{"client only", 0, 4, ""},
		{"server only", 4, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := must(transport.Listen("tcp", "127.0.0.1:0", backConfig(tc.server, nil)))(t)
			defer l.Close()
			conns := make(chan net.Conn, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				conns <- nc
			}()
			cfg := testConfig()
			if tc.client > 0 {
				cfg = backConfig(tc.client, newEcho())
			}
			c := dial(t, l.Addr().String(), cfg)
			nc := <-conns
			defer nc.Close()
			// MPA lets a server speak once it has heard something (RFC 5044 Section 7.1).
			got := make(chan error, 1)
			go func() { got <- try(t, c, &nullCall) }()
			fwd, _, _ := xdr.PeekXID(readRecordOf(t, nc))
			writeRecord(t, nc, rpcReply(fwd))
			noErr(t, <-got)
			writeRecord(t, nc, rpcCall(42, procSum, xdr.AppendOpaque(nil, filled(20))...))
			if tc.want == "" {
				waitFor(t, "the call is dropped", func() bool { return l.(*transport.Listener).Stats().Dropped+c.Stats().Dropped == 1 })
				return
			}
			d := xdr.NewDecoder(readRecordOf(t, nc))
			var h xdr.ReplyHeader
			if err := h.Parse(&d); err != nil || h.XID != 42 {
				t.Fatalf("%v, %+v", err, h)
			}
			if n, s := d.Uint32(), d.Uint32(); n != 20 || s != sum(filled(20)) {
				t.Errorf("%d octets, sum %d", n, s)
			}
			// Too long for a direction without chunks: SYSTEM_ERR.
			writeRecord(t, nc, rpcCall(43, procSum, xdr.AppendOpaque(nil, filled(5000))...))
			d = xdr.NewDecoder(readRecordOf(t, nc))
			if err := h.Parse(&d); err != nil || h.XID != 43 || h.Accept != xdr.SystemErr {
				t.Errorf("%v, %+v", err, h)
			}
			// One that nobody reads the reply of is forgotten with the connection.
			writeRecord(t, nc, rpcCall(44, procNull))
			waitFor(t, "its reply", func() bool { return c.Stats().BackwardReplies == 2 })
		})
	}
}

func writeRecord(t *testing.T, nc net.Conn, msg []byte) {
	t.Helper()
	must(nc.Write(markedRecord(msg)))(t)
}

// answerNull reads the call by which a client asks for the grant, and answers it.
func answerNull(t *testing.T, nc net.Conn) {
	t.Helper()
	msg := readRecordOf(t, nc)
	if rpcProc(msg) != procNull {
		t.Fatalf("%x is no NULL call", msg)
	}
	xid, _, _ := xdr.PeekXID(msg)
	writeRecord(t, nc, rpcReply(xid))
}

func readRecordOf(t *testing.T, nc net.Conn) []byte {
	t.Helper()
	noErr(t, nc.SetReadDeadline(time.Now().Add(patience)))
	msg := must(xdr.NewRecordReader(nc, 1<<20).Next(nil))(t)
	return msg
}
