package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// early is a server whose files end at cut, although their attributes say more.
type early struct {
	*server.Server
	cut uint64
}

func (e early) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	var a nfs3.ReadArgs
	d := xdr.NewDecoder(req.Args)
	if req.Prog == nfs3.Program && nfs3.Proc(req.Proc) == nfs3.ProcRead && xdr.Decode(&d, &a).Err() == nil {
		if a.Offset >= e.cut {
			a.Offset = 1 << 40
		} else {
			a.Count = uint32(min(uint64(a.Count), e.cut-a.Offset))
		}
		r := *req
		r.Args = xdr.Encode(nil, &a)
		req = &r
	}
	e.Server.ServeRPC(ctx, req, resp)
}

// TestEarlyEnd: a file that ends before its size is not taken for all of it, neither when it is copied or printed nor
// when a copy is verified.
func TestEarlyEnd(t *testing.T) {
	const size, cut = 3 << 20, 5 << 18 // not at the end of a block
	root, url := servedBy(t, true, 0, func(h *server.Server) rpc.Handler { return early{h, cut} })
	local := t.TempDir()
	fill(t, filepath.Join(root, "far"), size)
	fill(t, filepath.Join(local, "near"), size)
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"cat", url + "/far"}, "became shorter"},
		{[]string{"cp", url + "/far", "-"}, "became shorter"},
		{[]string{"cp", url + "/far", local}, "became shorter"},
		{[]string{"cp", "--verify", filepath.Join(local, "near"), url}, "differs from the source at octet 1310720"},
	} {
		if status, _, errs := run(x.args...); status != 1 || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %s", x.args, status, errs)
		}
	}
	if got := strings.Join(append(names(t, root), names(t, local)...), " "); got != "far near" {
		t.Errorf("files %s", got)
	}
}
