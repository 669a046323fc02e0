package bench

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// NFSPeer says where a process serves an export for [NFS].
type NFSPeer struct {
	RDMA  string `json:"rdma"`
	NoCRC string `json:"noCRC"` // RDMA, the CRC of MPA left out
	TCP   string `json:"tcp"`
	PID   int    `json:"pid"`
}

// ServeNFS serves the directory at as nfsdemo serve does, until the caller calls stop.
func ServeNFS(at string) (p NFSPeer, stop func() error, err error) {
	fsys, err := dir.New(at, nil)
	if err != nil {
		return p, nil, err
	}
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: exportPath, FS: fsys, Squash: server.SquashNone}}})
	if err != nil {
		return p, nil, errors.Join(err, fsys.Close())
	}
	var (
		wg   sync.WaitGroup
		ls   [3]net.Listener
		srvs = [...]*transport.Server{{Handler: h}, {Handler: h, Config: &transport.Config{Startup: transport.Startup{CRC: transport.CRCOff}}}}
	)
	stop = func() error {
		var errs []error
		for _, s := range srvs {
			errs = append(errs, s.Close())
		}
		for _, l := range ls {
			if l != nil {
				l.Close() //nolint:errcheck // most are closed already, by their servers
			}
		}
		wg.Wait()
		return errors.Join(append(errs, fsys.Close())...)
	}
	for i := range ls {
		if ls[i], err = measure.Listen(); err != nil {
			return p, nil, errors.Join(err, stop())
		}
	}
	for i, serve := range [...]func(net.Listener) error{srvs[0].Serve, srvs[1].Serve, srvs[0].ServeStream} {
		wg.Go(func() { _ = serve(ls[i]) }) // it ends with stop
	}
	at0 := func(i int) string { return ls[i].Addr().String() }
	return NFSPeer{RDMA: at0(0), NoCRC: at0(1), TCP: at0(2), PID: os.Getpid()}, stop, nil
}

// Columns returns the ways to call p.
func (p *NFSPeer) Columns() ([]Column, error) {
	small := &transport.Config{InlineSend: transport.DefaultInlineSize, InlineRecv: transport.DefaultInlineSize}
	cs := []Column{
		{Name: "RDMA"},
		{Name: "RDMA, no CRC", Config: &transport.Config{Startup: transport.Startup{CRC: transport.CRCOff}}},
		{Name: "RDMA, 4K inline", Config: small},
		{Name: "TCP"},
	}
	for i, u := range [...]string{"nfs+rdma://" + p.RDMA, "nfs+rdma://" + p.NoCRC, "nfs+rdma://" + p.RDMA, "nfs://" + p.TCP} {
		var err error
		if cs[i].URL, err = nfsclient.ParseURL(u + exportPath); err != nil {
			return nil, err
		}
		cs[i].PID = p.PID
	}
	return cs, nil
}
