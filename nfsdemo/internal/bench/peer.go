package bench

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// Peer says where the servers of a process listen.
type Peer struct {
	Sim  Place `json:"sim"`  // files in memory, logs in a model of persistent memory
	File Place `json:"file"` // files and logs on the same file system
}

// Place is one file system, with the addresses of its servers.
type Place struct {
	NFS  string `json:"nfs"`  // without logs
	Push string `json:"push"` // push-mode writes, and the processor time of the process
	Bare string `json:"bare"` // durable writes over plain TCP, see bare; "": no such server
}

// exportPath is what both servers export.
const exportPath = "/bench"

// Serve starts the servers, with files in the directory at. They run until the caller calls
// stop.
func Serve(at string) (p Peer, stop func() error, err error) {
	var ps [2]*place
	stop = func() error {
		var errs []error
		for _, pl := range ps {
			if pl != nil {
				errs = append(errs, pl.close())
			}
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	files, logs, sim := filepath.Join(at, "files"), filepath.Join(at, "logs"), filepath.Join(at, "sim")
	for _, d := range []string{files, logs, sim} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return p, stop, err
		}
	}
	if ps[0], err = newPlace(mem.New(nil), sim, newSimStore()); err != nil {
		return p, stop, err
	}
	fsys, err := dir.New(files, nil)
	if err != nil {
		return p, stop, err
	}
	if ps[1], err = newPlace(fsys, logs, nil); err != nil {
		return p, stop, err
	}
	if err := ps[1].addBare(logs); err != nil {
		return p, stop, err
	}
	return Peer{Sim: ps[0].at(), File: ps[1].at()}, stop, nil
}

// place is a served file system with its logs. WRITE is measured at a server without logs.
type place struct {
	fs      backend.FS
	push    *pushwrite.Server
	bare    *bare               // nil: none
	servers []*transport.Server // plain and push
	ls      []net.Listener      // of the two, and of commit connections
	wg      sync.WaitGroup
}

// newPlace keeps leases in the directory at, and logs in store, or in at if store is nil.
func newPlace(fsys backend.FS, at string, store push.Store) (*place, error) {
	p := &place{fs: fsys}
	for range 3 {
		l, err := measure.Listen()
		if err != nil {
			return p, err
		}
		p.ls = append(p.ls, l)
	}
	exports := []server.Export{{Path: exportPath, FS: fsys, Squash: server.SquashNone}}
	plain, err := server.New(&server.Config{Exports: exports})
	if err != nil {
		return p, err
	}
	commits := p.ls[2]
	if p.push, err = pushwrite.Open(&pushwrite.Config{
		Dir: at, Store: store, Addr: commits.Addr().String(), Limits: push.Limits{Opens: 1 << 16},
	}); err != nil {
		return p, err
	}
	pushed, err := server.New(&server.Config{Exports: exports, Guard: p.push})
	if err != nil {
		return p, err
	}
	pushed.Add(usageProgram())
	if err := p.push.Start(context.Background(), pushed); err != nil {
		return p, err
	}
	p.servers = []*transport.Server{
		{Handler: plain},
		{Handler: pushed, Config: &transport.Config{Backward: transport.Backward{Credits: 8}}},
	}
	for i, s := range p.servers {
		l := p.ls[i]
		p.wg.Go(func() { _ = s.Serve(l) }) // it ends with close
	}
	p.wg.Go(func() { _ = p.push.Serve(commits) })
	return p, nil
}

func (p *place) at() Place {
	addr := func(i int) string { return p.ls[i].Addr().String() }
	pl := Place{NFS: addr(0), Push: addr(1)}
	if p.bare != nil {
		pl.Bare = p.bare.l.Addr().String()
	}
	return pl
}

// addBare serves bare writes, with rings in the directory at.
func (p *place) addBare(at string) error {
	l, err := measure.Listen()
	if err == nil {
		p.bare = newBare(l, at)
	}
	return err
}

func (p *place) close() error {
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.Close())
	}
	if p.push != nil {
		errs = append(errs, p.push.Close(context.Background()))
	}
	if p.bare != nil {
		p.bare.close()
	}
	for _, l := range p.ls {
		l.Close() //nolint:errcheck // most are closed already, by their servers
	}
	p.wg.Wait()
	return errors.Join(append(errs, p.fs.Close())...)
}
