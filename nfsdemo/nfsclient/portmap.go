package nfsclient

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The port mapper, RFC 1833 Section 3.
const (
	portmapProg    = 100000
	portmapVers    = 2
	portmapGetPort = 3
	portmapPort    = "111"
	portmapTCP     = 6 // prot of a mapping: the IP protocol number
)

// GetPort asks the port mapper on the other end of caller for the TCP port of a
// program (RFC 1833 Section 3.2, PMAPPROC_GETPORT). It returns 0 if the program is not registered.
func GetPort(ctx context.Context, caller rpc.Caller, prog, vers uint32) (int, error) {
	r := program{caller: caller, prog: portmapProg, vers: portmapVers}
	args := make([]byte, 0, 16)
	for _, v := range [...]uint32{prog, vers, portmapTCP, 0} {
		args = xdr.AppendUint32(args, v)
	}
	port := 0
	err := r.do(ctx, &rpc.Call{Proc: portmapGetPort, Args: args}, func(d *xdr.Decoder, _ *rpc.Reply) error {
		if v := d.Uint32(); v <= 65535 {
			port = int(v)
		} else {
			d.Fail(xdr.ErrRange)
		}
		return nil
	})
	return port, err
}

// lookupPort asks the port mapper of host, which listens on port at.
func lookupPort(ctx context.Context, host, at string, prog, vers uint32) (int, error) {
	c, err := transport.DialStream(ctx, "tcp", net.JoinHostPort(host, at), nil)
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // the answer has arrived
	port, err := GetPort(ctx, c, prog, vers)
	if err == nil && port == 0 {
		err = fmt.Errorf("program %d version %d is not registered with rpcbind on %s", prog, vers, host)
	}
	return port, err
}
