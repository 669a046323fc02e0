package cli

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// mountOnly serves MOUNT and nothing else: who opens the port of --mount-listen does not mean to serve NFS
// over TCP.
type mountOnly struct{ svc transport.Handler }

// ServeRPC answers calls of other programs with PROG_UNAVAIL.
func (m mountOnly) ServeRPC(ctx context.Context, req *transport.Request, resp *transport.Response) {
	if req.Prog != mount3.Program {
		resp.Stat = xdr.ProgUnavail
		return
	}
	m.svc.ServeRPC(ctx, req, resp)
}

// MayBlock asks the service.
func (m mountOnly) MayBlock(prog, vers, proc uint32) bool {
	return prog == mount3.Program && transport.MayBlock(m.svc, prog, vers, proc)
}
