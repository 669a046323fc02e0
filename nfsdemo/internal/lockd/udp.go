package lockd

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Readers of a UDP socket: as many calls run at a time, since locks wait elsewhere.
const udpReaders = 4

// maxDatagram is more than the longest call has: a lock with three strings of 1024 octets.
const maxDatagram = 8192

// datagram is a Handler that names the transport, which ServeMessage does not know, and answers with no more than a datagram
// may have.
type datagram struct{ next rpc.Handler }

func (h datagram) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	req.Network = "udp"
	if h.next.ServeRPC(ctx, req, resp); resp.ReplySize() > maxDatagram {
		resp.Fail(xdr.SystemErr) // a list in parts would be a wrong one
	}
}

// Serves reports whether a program is one of a Server.
func Serves(prog uint32) bool { return prog == NLMProgram || prog == NSMProgram }

// ServeUDP answers calls that come to p, which h serves, until p is closed. Those that allow, if not nil, refuses get no answer.
func ServeUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(from net.Addr, prog uint32) bool) error {
	var wg sync.WaitGroup
	errs := make(chan error, udpReaders)
	for range udpReaders {
		wg.Go(func() { errs <- serveUDP(ctx, p, datagram{h}, allow) })
	}
	wg.Wait()
	return <-errs
}

func serveUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(net.Addr, uint32) bool) error {
	in, out := make([]byte, maxDatagram), []byte(nil)
	for {
		n, from, err := p.ReadFrom(in)
		if err != nil {
			return err
		}
		const prog = 12 // behind XID, direction and version (RFC 5531 Section 9)
		if n < prog+4 || allow != nil && !allow(from, binary.BigEndian.Uint32(in[prog:])) {
			continue
		}
		var ok bool
		if out, ok = rpc.ServeMessage(ctx, h, from, in[:n], out[:0]); ok {
			_, _ = p.WriteTo(out, from) // the caller asks again
		}
	}
}
