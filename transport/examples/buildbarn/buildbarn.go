package buildbarn

import (
	"bytes"
	"context"
	"io"
	"net"

	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
	"github.com/buildbarn/go-xdr/pkg/rpcserver"
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Serve runs s on every connection of l until l is closed, whose error it returns.
func Serve(l net.Listener, s *rpcserver.Server) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = s.HandleConnection(c, c) // on an error, the client sees its connection end
		}()
	}
}

// Handler serves the programs by number. Binding finds the results that may travel in
// chunks; nil means chunks.NFS. Services may block: each call gets a goroutine.
type Handler struct {
	Services      map[uint32]rpcserver.Service
	Authenticator rpcserver.Authenticator
	Binding       chunks.Binding
}

// Describe implements the optional method of rpc.Handler.
func (*Handler) Describe(_ *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: true}
}

// ServeRPC implements rpc.Handler.
func (h *Handler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	service, ok := h.Services[req.Prog]
	if !ok {
		resp.Stat = xdr.ProgUnavail
		return
	}
	ctx, verf, stat := h.Authenticator.Authenticate(ctx, auth(req.Cred), auth(req.Verf))
	if stat != rpcv2.AUTH_OK {
		resp.Deny(xdr.AuthStat(stat))
		return
	}
	resp.Verf = xdr.Auth{Flavor: xdr.AuthFlavor(verf.Flavor), Body: verf.Body}
	var out *bytes.Buffer
	data, err := service(ctx, req.Vers, req.Proc, io.NopCloser(bytes.NewReader(req.Args)), func(size int) io.Writer {
		out = bytes.NewBuffer(make([]byte, 0, size))
		return out
	})
	if err != nil { // the octets cannot be decoded; rpcserver would end the connection
		resp.Stat = xdr.GarbageArgs
		return
	}
	if m, ok := data.(*rpcv2.AcceptedReplyData_PROG_MISMATCH); ok {
		resp.ProgMismatch(m.MismatchInfo.Low, m.MismatchInfo.High)
		return
	}
	if resp.Stat = xdr.AcceptStat(data.GetStat()); resp.Stat == xdr.Success && out != nil {
		h.results(req, resp, out.Bytes())
	}
}

// results passes the reducible result on as an item.
func (h *Handler) results(req *rpc.Request, resp *rpc.Response, b []byte) {
	binding := h.Binding
	if binding == nil {
		binding = chunks.NFS
	}
	from := 0
	for _, it := range chunks.EligibleResults(binding, req.Prog, req.Vers, req.Proc, b, nil) {
		resp.Results = append(resp.Results, b[from:it.Pos-4]...) // AppendItem writes the count
		resp.AppendItem(it.Data)
		from = it.Pos + len(it.Data) + xdr.Pad(len(it.Data))
	}
	resp.Results = append(resp.Results, b[from:]...)
}

func auth(a xdr.Auth) *rpcv2.OpaqueAuth {
	return &rpcv2.OpaqueAuth{Flavor: rpcv2.AuthFlavor(a.Flavor), Body: a.Body}
}
