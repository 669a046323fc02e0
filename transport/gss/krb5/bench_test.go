package krb5_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// BenchmarkServices compares calls of NFSv3 in clear with those under each service, over both transports, with AES-256 and
// SHA-1, as most KDCs have it.
func BenchmarkServices(b *testing.B) {
	const size = 1 << 20
	k := newKDC(b, enctypes[1])
	s := &transport.Server{
		Config: &transport.Config{GSS: transport.GSS{Accept: krb5.NewKeytab(k.kt).Accept}},
		Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
			switch req.Proc {
			case 1: // GETATTR
				resp.Results = append(resp.Results, make([]byte, 88)...)
			case 6: // READ
				resp.Results = append(resp.Results, make([]byte, 16)...)
				resp.AppendItem(resp.Scratch(size)[:size])
			default: // WRITE
				resp.Results = append(resp.Results, make([]byte, 132)...)
			}
		}),
	}
	defer s.Close()
	file := append(xdr.AppendOpaque(nil, make([]byte, 32)), make([]byte, 8)...) // and an offset
	read := xdr.AppendUint32(file, size)
	write := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(slices.Clip(file), size), 2), size)
	kinds := []struct {
		name string
		call rpc.Call
	}{
		{"GETATTR", rpc.Call{Proc: 1, Args: file[:36], MaxResults: 88}},
		{"READ", rpc.Call{Proc: 6, Args: read, Sink: make([]byte, size), MaxResults: 200}},
		{"WRITE", rpc.Call{Proc: 7, Args: write, Item: make([]byte, size), ItemPos: len(write), MaxResults: 200}},
	}
	serve := map[string]func(net.Listener) error{"rdma": s.Serve, "tcp": s.ServeStream}
	for _, network := range []string{"rdma", "tcp"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go serve[network](l)
		for _, kind := range kinds {
			for service := range gss.Privacy + 1 {
				name := "clear"
				cfg := new(transport.Config)
				call := kind.call
				call.Prog, call.Vers = 100003, 3
				if service > 0 {
					name, call.Cred = service.String(), xdr.Auth{Flavor: xdr.RPCSECGSS}
					cfg.GSS.Client = gss.NewClient(service, func(context.Context) (gss.Handshake, error) {
						return k.ticket([]string{"alice"}, "nfs/host", 0, time.Hour), nil
					})
				}
				b.Run(kind.name+"/"+network+"/"+name, func(b *testing.B) {
					var c rpc.Caller
					if network == "rdma" {
						c, err = transport.Dial(b.Context(), "tcp", l.Addr().String(), cfg)
					} else {
						c, err = transport.DialStream(b.Context(), "tcp", l.Addr().String(), cfg)
					}
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					for b.Loop() {
						var r rpc.Reply
						if err := c.Do(b.Context(), &call, &r); err != nil || r.Header.Err() != nil {
							b.Fatal(err, r.Header.Err())
						}
						r.Release()
					}
				})
			}
		}
	}
}
