package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// writeCall is an NFSv3 WRITE of data.
func writeCall(data []byte) *rpc.Call {
	args := xdr.AppendOpaque(nil, make([]byte, 28))
	args = append(args, make([]byte, 16)...)
	args = xdr.AppendUint32(args, uint32(len(data)))
	return &rpc.Call{Prog: 100003, Vers: 3, Proc: 7, Args: args, Item: data, ItemPos: len(args)}
}

// arrivals checks the data of each WRITE and says where in memory they are, modulo 64.
func arrivals(t testing.TB, want func() []byte, off chan<- uintptr) rpc.Handler {
	return rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
		if req.Proc == procNull { // it asks for the grant
			return
		}
		d := xdr.NewDecoder(req.Args)
		d.Opaque(64)
		d.Skip(16)
		data := d.Opaque(1 << 20)
		if !bytes.Equal(data, want()) || d.End() != nil {
			t.Errorf("%d octets arrived, %v", len(data), d.End())
		}
		off <- uintptr(unsafe.Pointer(unsafe.SliceData(data))) % 64
	})
}

// TestPadded: the data of a WRITE that fit inline come as RDMA_MSGP and lie aligned in
// the memory that the handler sees, whatever is before them.
func TestPadded(t *testing.T) {
	off := make(chan uintptr, 1)
	var data []byte
	server := config5666()
	server.AnyCred = true
	s, c := pair(t, arrivals(t, func() []byte { return data }, off), server, config5666())
	padded := uint64(0)
	for i, n := range []int{100, 511, 512, 1501, 3000, 3700, 3801, 4000, 70_000} {
		data = filled(n)
		call := writeCall(data)
		call.Cred.Body = make([]byte, 4*i)
		mustDo(t, c, call)
		at := <-off
		if n >= 512 && n < 4000 {
			padded++
			if at != 0 {
				t.Errorf("%d octets lie at %d modulo 64", n, at)
			}
		}
	}
	if st := s.Stats(); st.Padded != padded || c.Stats().Padded != padded || st.OctetsRead != 4000+70_000 {
		t.Errorf("%d calls padded: server %+v, client %+v", padded, st, c.Stats())
	}
}

const (
	readable = region.RemoteRead
	writable = region.RemoteWrite
)

// chunkAt is a read chunk of one segment.
func chunkAt(pos uint32, s chunks.Segment) chunks.ReadSegment {
	return chunks.ReadSegment{Position: pos, Segment: s}
}

// confCall is a raw call of CONF_RDMA.
func confCall(xid uint32, args ...uint32) []byte {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: rpcrdma.ConfigProgram, Vers: 1, Proc: 1}
	return append(xdr.AppendCall(nil, &h), words(args...)...)
}

// TestConfigServer: the Connection Configuration Protocol is answered in both profiles,
// and what the client says is obeyed.
func TestConfigServer(t *testing.T) {
	for _, profile := range []rpcrdma.Profile{rpcrdma.RFC8166, rpcrdma.RFC5666} {
		t.Run(fmt.Sprint(profile), func(t *testing.T) {
			_, addr := startServer(t, newEcho(), configOf(profile, &transport.Config{InlineRecv: 2048, Startup: transport.Startup{IRD: 5}}, 16))
			p := rawClient(t, addr, rawConfig(nil, 4096)) // ORD 3
			call := func(xid uint32, msg []byte) (rpcrdma.Header, []byte) {
				p.send(header(rpcrdma.Header{XID: xid}), msg)
				return p.recv()
			}
			fill := func(xid uint32) bool { // inline?
				h := rpcrdma.Header{XID: xid}
				h.HasReply, h.Reply = true, append(h.Reply, p.offer(make([]byte, 4000), writable))
				p.send(header(h), rpcCall(xid, procFill, words(1500)...))
				got, _ := p.recv()
				return got.Type == rpcrdma.MsgTypeMsg
			}
			if fill(1) {
				t.Error("sent 1500 octets inline, although nobody said that they fit")
			}
			_, reply := call(2, confCall(2, 4096, 4096, 7))
			align := uint32(0)
			if profile == rpcrdma.RFC5666 {
				align = 16
			}
			if got, err := rpcrdma.ParseConfigReply(reply[24:]); err != nil || got != (rpcrdma.ConfigReply{MaxCall: 2048, Align: align, MaxRead: 3}) {
				t.Errorf("%+v, %v", got, err)
			}
			if !fill(3) {
				t.Error("did not send 1500 octets inline")
			}
			seg := p.offer(filled(3000), readable)
			echo := rpcrdma.Header{XID: 4}
			echo.Read = append(echo.Read, chunkAt(44, seg))
			call(5, confCall(5, 4096, 4096, 0))
			p.send(header(echo), rpcCall(4, procSum, words(3000)...))
			if got, _ := p.recv(); got.Err != rpcrdma.ErrChunk {
				t.Errorf("a client that serves no Reads was to be read: %+v", got)
			}
			if _, reply := call(6, confCall(6, 1)); reply[23] != byte(xdr.GarbageArgs) {
				t.Errorf("one word: %x", reply)
			}
		})
	}
}

// TestConfigClient: the client obeys the values that the server announces.
func TestConfigClient(t *testing.T) {
	for _, test := range []struct {
		name string
		told bool // RFC 8797, 4096 octets
		max  uint32
		want int
	}{
		{"raised", false, 3000, 3000},
		{"not above our own", false, 1 << 20, 8192},
		{"lowered", true, 2000, 2000},
		{"never raised above RFC 8797", true, 8192, 4096},
		{"never below the least", true, 3, 1024},
	} {
		t.Run(test.name, func(t *testing.T) {
			var priv []byte
			if test.told {
				priv = usualPrivate()
			}
			cfg := config5666()
			cfg.InlineSend = 8192
			c := rawServer(t, rawConfig(priv, 8192), cfg, func(p *rawPeer, h *rpcrdma.Header, msg []byte) {
				args, err := rpcrdma.ParseConfigArgs(msg[40:])
				if err != nil || args.MaxCall != 8192 || args.MaxReply != 4096 || args.MaxRead == 0 {
					t.Errorf("%+v, %v", args, err)
				}
				p.send(header(rpcrdma.Header{XID: h.XID}), rpcReply(h.XID, words(test.max, 4, 2)...))
			})
			if send, _ := c.Inline(); send != test.want {
				t.Errorf("calls of %d octets, want %d", send, test.want)
			}
			if ord := c.Conn().ConnectionState().ORD; ord != 2 {
				t.Errorf("ORD %d", ord)
			}
		})
	}
}
