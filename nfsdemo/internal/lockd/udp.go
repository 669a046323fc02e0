package lockd

import (
	"context"
	"net"
	"sync"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Readers of a UDP socket: as many calls run at a time, since locks wait elsewhere.
const udpReaders = 4

// maxDatagram is more than the longest call has: a lock with three strings of 1024 octets.
const maxDatagram = 8192

// datagram is a Handler that names the transport: ServeMessage does not know it.
type datagram struct{ next rpc.Handler }

func (h datagram) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if !Serves(req.Prog) {
		resp.Stat = xdr.ProgUnavail
		return
	}
	req.Network = "udp"
	h.next.ServeRPC(ctx, req, resp)
}

// Serves reports whether a program is one of a Server.
func Serves(prog uint32) bool { return prog == NLMProgram || prog == NSMProgram }

// ServeUDP answers calls of NLM and NSM that come to p, which h serves, until p is closed. Those from
// addresses that allow, if not nil, refuses are ignored.
func ServeUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(net.Addr) bool) error {
	var wg sync.WaitGroup
	errs := make(chan error, udpReaders)
	for range udpReaders {
		wg.Go(func() { errs <- serveUDP(ctx, p, datagram{h}, allow) })
	}
	wg.Wait()
	return <-errs
}

func serveUDP(ctx context.Context, p net.PacketConn, h rpc.Handler, allow func(net.Addr) bool) error {
	in, out := make([]byte, maxDatagram), []byte(nil)
	for {
		n, from, err := p.ReadFrom(in)
		if err != nil {
			return err
		}
		if allow != nil && !allow(from) {
			continue
		}
		var ok bool
		if out, ok = rpc.ServeMessage(ctx, h, from, in[:n], out[:0]); ok {
			_, _ = p.WriteTo(out, from) // the caller asks again
		}
	}
}
