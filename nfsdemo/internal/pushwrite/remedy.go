package pushwrite

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// condemnedError says why a log is condemned.
type condemnedError struct{ err error }

func (e *condemnedError) Error() string { return "pushwrite: the log is condemned: " + e.err.Error() }
func (e *condemnedError) Unwrap() error { return e.err }

// advise sets the file of the log of b, and what an operator can do.
func (s *Server) advise(b *Blocked) {
	dir := s.cfg.Dir
	b.File = push.LogFile(s.cfg.Store, b.Log)
	_, condemned := errors.AsType[*condemnedError](b.Err)
	switch {
	case condemned:
		b.Remedy = fmt.Sprintf("nothing waits for it; to inspect it: nfsdemo log push %s; "+
			"to free its room, stop the server and run: nfsdemo log push %s --give-up %s", dir, dir, b.Log)
	case errors.Is(b.Err, commitlog.ErrVersion):
		b.Remedy = fmt.Sprintf("operations on its files fail with NFS3ERR_IO until a server of that version has applied it; or stop "+
			"the server and give the log up: nfsdemo log push %s --give-up %s", dir, b.Log)
	case b.File != "" && commitlog.TailError(b.Err):
		b.Remedy = fmt.Sprintf("operations on its files fail with NFS3ERR_IO; stop the server, and restore the log from a copy of the "+
			"latest state, or mend it (nfsdemo log mend %s shows what it holds), or give it up: nfsdemo log push %s --give-up %s", b.File, dir, b.Log)
	case b.Record == 0:
		b.Remedy = fmt.Sprintf("operations on its files fail with NFS3ERR_IO; stop the server, and restore the log from a copy of the "+
			"latest state, or give it up: nfsdemo log push %s --give-up %s", dir, b.Log)
	default:
		b.Remedy = fmt.Sprintf("remove the cause: the server tries again; if the record can never be applied, stop the server and run: "+
			"nfsdemo log push %s --discard %d", dir, b.Lease)
	}
}
