// Command stagcard is nfsdemo on RDMA cards: it serves a directory over NFSv3 on RPC-over-RDMA, passes clients on to other
// servers, and reads and writes files, over libibverbs and librdmacm.
//
//	stagcard serve --export /srv/data --listen 192.0.2.5:20049 --allow 192.0.2.0/24
//
// packaging/stagcard.conf makes it the server of nfsdemo.service.
//
// It is a module of its own because it needs cgo and the headers of rdma-core.
package main

import (
	"context"
	"net"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/rdmap/card"
)

func main() { os.Exit(cli.MainCard(cards(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// cards is what stagcard serves and connects over.
func cards() *cli.Card {
	cfg := new(card.Config)
	return &cli.Card{
		Program: "stagcard",
		Memory:  &cfg.Memory, MinMemory: card.MinMemory, Logger: &cfg.Logger,
		Listen: func(_ context.Context, addr string) (net.Listener, error) {
			l, err := card.Listen(addr, cfg)
			if err != nil {
				return nil, err // a nil *Listener is no nil net.Listener
			}
			return l, nil
		},
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := card.Dial(ctx, addr, cfg)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}
}
