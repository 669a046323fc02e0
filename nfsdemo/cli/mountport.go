package cli

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// mountOnly serves MOUNT, locks, and nothing else: who opens the port of --mount-listen does not mean to serve
// NFS over TCP.
type mountOnly struct{ svc rpc.Handler }

// beside reports whether a program is served beside NFS.
func beside(prog uint32) bool { return prog == mount3.Program || lockd.Serves(prog) }

// ServeRPC answers calls of other programs with PROG_UNAVAIL.
func (m mountOnly) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if !beside(req.Prog) {
		resp.Stat = xdr.ProgUnavail
		return
	}
	m.svc.ServeRPC(ctx, req, resp)
}

// Describe asks the service.
func (m mountOnly) Describe(req *rpc.Request) (t rpc.Traits) {
	if beside(req.Prog) {
		t = rpc.Describe(m.svc, req)
	}
	return t
}
