package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// LogFile returns the file n as the last rung of package push: a log at a server that has nothing but
// NFS. Appends are UNSTABLE WRITEs, with one COMMIT for a group of them. It is for one log and one
// writer; see [push.Config].
func (c *Client) LogFile(n *Node) push.File { return &logFile{c: c, n: n} }

// logFile is a file that holds a log. One goroutine at a time uses it.
type logFile struct {
	c *Client
	n *Node

	unstable bool           // some writes need a COMMIT
	verf     nfs3.WriteVerf // the write verifier of these writes
	lost     bool           // the verifier changed: some of them may be lost
}

var _ push.File = (*logFile)(nil)

// ReadAt implements push.File.
func (f *logFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return f.c.ReadAt(ctx, f.n, p, off)
}

// WriteAt implements push.File.
func (f *logFile) WriteAt(ctx context.Context, p []byte, off int64) error {
	for len(p) > 0 {
		res, err := f.c.write(ctx, f.n, off, p[:min(len(p), f.c.writes.size)], nfs3.Unstable)
		if err != nil {
			return pathErr("write", f.n.Path, err)
		}
		if res.Committed == nfs3.Unstable {
			f.lost = f.lost || f.unstable && res.Verf != f.verf
			f.unstable, f.verf = true, res.Verf
		}
		p, off = p[res.Count:], off+int64(res.Count)
	}
	return nil
}

// Commit implements push.File. If the verifier of COMMIT is that of the writes, the data are on the
// disk of the server (RFC 1813 Section 3.3.21).
func (f *logFile) Commit(ctx context.Context) (commitlog.Level, error) {
	verf, err := f.c.commit(ctx, f.n)
	if err != nil {
		return 0, pathErr("commit", f.n.Path, err)
	}
	again := f.lost || f.unstable && verf != f.verf
	if f.unstable, f.lost = false, false; again {
		return 0, push.ErrRewrite
	}
	return commitlog.Persistent, nil
}
