package pushwrite

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// condemnedError is why a log is condemned.
type condemnedError struct{ err error }

func (e *condemnedError) Error() string { return "pushwrite: the log is condemned: " + e.err.Error() }
func (e *condemnedError) Unwrap() error { return e.err }

// advise says where the log of b is, and what an operator can do.
func (s *Server) advise(b *Blocked) {
	dir := s.cfg.Dir
	b.File = push.LogFile(s.cfg.Store, b.Log)
	_, condemned := errors.AsType[*condemnedError](b.Err)
	switch {
	case condemned:
		b.Remedy = fmt.Sprintf("nothing waits for it; to look: nfsdemo log push %s; "+
			"to free its room, with the server stopped: nfsdemo log push %s --give-up %s", dir, dir, b.Log)
	case errors.Is(b.Err, commitlog.ErrVersion):
		b.Remedy = fmt.Sprintf("its files answer NFS3ERR_IO until a server of that version has applied what it holds, or, with the "+
			"server stopped, it is given up: nfsdemo log push %s --give-up %s", dir, b.Log)
	case b.File != "" && commitlog.TailError(b.Err):
		b.Remedy = fmt.Sprintf("its files answer NFS3ERR_IO until, with the server stopped, the log is restored from a copy of the "+
			"latest state, mended (nfsdemo log mend %s shows what it holds), or given up: nfsdemo log push %s --give-up %s", b.File, dir, b.Log)
	case b.Record == 0:
		b.Remedy = fmt.Sprintf("its files answer NFS3ERR_IO until, with the server stopped, the log is restored from a copy of the "+
			"latest state, or given up: nfsdemo log push %s --give-up %s", dir, b.Log)
	default:
		b.Remedy = fmt.Sprintf("remove the cause, it is tried again; if it can never be applied, with the server stopped: "+
			"nfsdemo log push %s --discard %d", dir, b.Lease)
	}
}
