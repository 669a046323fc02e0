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
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// Peer is the process of the servers: where they listen.
type Peer struct {
	Sim  Place `json:"sim"`  // files in memory, logs in a crash model
	File Place `json:"file"` // files and logs on the same file system
}

// Place is one server. Both addresses serve NFS, MOUNT and push.
type Place struct {
	Pull   string `json:"pull"`   // 4096 octets inline: larger WRITEs are pulled by RDMA Read
	Inline string `json:"inline"` // inlineSize octets
}

// inlineSize is enough for a WRITE of the largest size of Plot.
const inlineSize = 72 << 10

// exportPath is what both servers export.
const exportPath = "/bench"

// Serve starts the servers, with files in the directory at. They end with stop.
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
	if ps[0], err = newPlace(mem.New(nil), newSimStore()); err != nil {
		return p, stop, err
	}
	files, logs := filepath.Join(at, "files"), filepath.Join(at, "logs")
	if err := errors.Join(os.Mkdir(files, 0o700), os.Mkdir(logs, 0o700)); err != nil {
		return p, stop, err
	}
	fsys, err := dir.New(files, nil)
	if err != nil {
		return p, stop, err
	}
	if ps[1], err = newPlace(fsys, push.Dir(logs, pmem.File)); err != nil {
		return p, stop, err
	}
	return Peer{Sim: ps[0].at(), File: ps[1].at()}, stop, nil
}

// place is a file system that is served, and the logs beside it.
type place struct {
	fs     backend.FS
	push   *push.Server
	pull   *transport.Server
	inline *transport.Server
	commit net.Listener
	ls     [2]net.Listener // of pull and inline
	wg     sync.WaitGroup
}

func newPlace(fsys backend.FS, store push.Store) (*place, error) {
	p := &place{fs: fsys}
	var err error
	for _, l := range []*net.Listener{&p.commit, &p.ls[0], &p.ls[1]} {
		if *l, err = measure.Listen(); err != nil {
			return p, err
		}
	}
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: exportPath, FS: fsys, Squash: server.SquashNone}}})
	if err != nil {
		return p, err
	}
	a := &applier{root: fsys.Root()}
	p.push = &push.Server{
		Store: store, Addr: p.commit.Addr().String(),
		Limits: push.Limits{Capacity: uint64(ringSize), Opens: 1 << 16}, Consume: a.consume,
	}
	if err := p.push.Load(); err != nil {
		return p, err
	}
	f := &front{h, p.push, a}
	p.pull = &transport.Server{Handler: f}
	p.inline = &transport.Server{Handler: f, Config: &transport.Config{InlineSend: inlineSize, InlineRecv: inlineSize}}
	p.wg.Go(func() { _ = p.push.Serve(p.commit) }) // they end with close
	p.wg.Go(func() { _ = p.pull.Serve(p.ls[0]) })
	p.wg.Go(func() { _ = p.inline.Serve(p.ls[1]) })
	return p, nil
}

func (p *place) at() Place {
	return Place{Pull: p.ls[0].Addr().String(), Inline: p.ls[1].Addr().String()}
}

func (p *place) close() error {
	var err error
	if p.inline != nil {
		err = errors.Join(p.pull.Close(), p.inline.Close())
	}
	if p.push != nil {
		err = errors.Join(err, p.push.Close(context.Background()))
	}
	for _, l := range []net.Listener{p.commit, p.ls[0], p.ls[1]} {
		if l != nil {
			l.Close() //nolint:errcheck // closed by its server, for most
		}
	}
	p.wg.Wait()
	return errors.Join(err, p.fs.Close())
}
