package server

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"go.uber.org/zap"
)

// settling is a call whose outcome is determined after a restart.
type settling struct {
	subject
	op  op
	was witness
	in  *once.Intent
}

// Settle looks at what a call has left (once.Service). docs/exactly-once.md has the rules.
func (s *Server) Settle(ctx context.Context, in *once.Intent, results []byte) ([]byte, once.Outcome, error) {
	p, ok := parseSubject(nfs3.Proc(in.Proc), in.Args)
	if in.Prog != nfs3.Program || in.Vers != nfs3.Version || !ok {
		return results, once.Unknown, nil
	}
	t := &settling{subject: *p, in: in, op: op{s: s, ctx: ctx, proc: p.proc}}
	if !t.was.parse(in.State) {
		return results, once.Unknown, nil
	}
	results, out, err := t.settle(results)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("server: the outcome of a call is unknown", zap.Stringer("nfs.procedure", p.proc), zap.Error(err))
		return results, once.Unknown, nil
	}
	return results, out, err
}

// settle chooses the rule of the procedure. An error makes the outcome unknown.
func (t *settling) settle(results []byte) ([]byte, once.Outcome, error) {
	switch t.proc {
	case nfs3.ProcSetAttr:
		return t.attributes(results)
	case nfs3.ProcWrite:
		return t.written(results)
	case nfs3.ProcRemove, nfs3.ProcRmdir:
		return t.removal(results)
	case nfs3.ProcRename:
		return t.rename(results)
	case nfs3.ProcLink:
		return t.link(results)
	case nfs3.ProcCreate:
		if len(t.was.ids[0]) > 0 {
			return t.opened(results)
		}
		return t.making(results)
	default:
		return t.making(results)
	}
}

// errForeign: the export of a handle is not served now.
var errForeign = errors.New("the export is not served now")

// patience and pause are for files that a backend must search for.
const (
	patience = 30 * time.Second
	pause    = 50 * time.Millisecond
)

// resolve finds a file. ErrStale does not prove that it is gone: a backend may have given up its search.
func (t *settling) resolve(h nfs3.FileHandle) (backend.Node, error) {
	e := t.op.s.export(h)
	if e == nil {
		return nil, errForeign
	}
	t.op.exp = e
	for end := time.Now().Add(patience); ; {
		n, err := e.FS.Resolve(h[handleHead:])
		if !errors.Is(err, nfs3.ErrJukebox) || time.Now().After(end) {
			return n, err
		}
		select {
		case <-time.After(pause):
		case <-t.op.ctx.Done():
			return nil, t.op.ctx.Err()
		}
	}
}

// found is the file that has a name now.
type found struct {
	dir file
	file
	id nfs3.FileHandle // empty: nothing has the name
}

// name looks at the i-th name.
func (t *settling) name(i int) (f found, err error) {
	n, err := t.resolve(t.at[i].Dir)
	if err == nil {
		f.dir.node = n
		f.dir.attr, err = n.Attr()
	}
	if err != nil {
		return f, err
	}
	f.file, err = t.op.lookAt(&f.dir, t.at[i].Name)
	if err == nil && f.node != nil {
		f.id = t.op.handleOf(f.node)
	}
	return f, err
}

// wcc returns the wcc_data of a directory with its current attributes.
func (t *settling) wcc(dir file) nfs3.Wcc {
	c := change{file: dir}
	return c.wcc()
}

// removal: it was done if the name is gone, or is that of another file.
func (t *settling) removal(results []byte) ([]byte, once.Outcome, error) {
	f, err := t.name(0)
	if err != nil || len(t.was.ids[0]) == 0 || bytes.Equal(f.id, t.was.ids[0]) {
		return results, once.NotDone, err
	}
	res := nfs3.WccRes{Wcc: t.wcc(f.dir)}
	return res.Append(results), once.Done, durable(f.dir.node)
}

// rename: it was done if the new name is that of the file. If both names were, there was nothing to do.
func (t *settling) rename(results []byte) ([]byte, once.Outcome, error) {
	moved := t.was.ids[0]
	if len(moved) == 0 || bytes.Equal(moved, t.was.ids[1]) {
		return results, once.NotDone, nil
	}
	to, err := t.name(1)
	if err != nil {
		return results, once.Unknown, err
	}
	from, err := t.name(0)
	switch {
	case err != nil:
		return results, once.Unknown, err
	case bytes.Equal(to.id, moved):
		res := nfs3.RenameRes{FromWcc: t.wcc(from.dir), ToWcc: t.wcc(to.dir)}
		return res.Append(results), once.Done, durable(to.dir.node, from.dir.node)
	case bytes.Equal(from.id, moved):
		return results, once.NotDone, nil
	}
	return results, once.Unknown, errors.New("neither name is that of the file")
}

// link: it was done if the new name is that of the file.
func (t *settling) link(results []byte) ([]byte, once.Outcome, error) {
	f, err := t.name(0)
	if err != nil || len(t.was.ids[0]) > 0 || !bytes.Equal(f.id, t.file) {
		return results, once.NotDone, err
	}
	res := nfs3.LinkRes{Attr: f.opt(), DirWcc: t.wcc(f.dir)}
	return res.Append(results), once.Done, durable(f.dir.node)
}

// durable makes changes of files durable: the process may have been killed before it could.
func durable(nodes ...backend.Node) error {
	for _, n := range nodes {
		if s, ok := n.(backend.Syncer); ok {
			if err := s.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}
