package pushwrite

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
	"go.uber.org/zap"
)

// Defaults of Config.
const (
	DefaultRecallTime = 10 * time.Second
	DefaultWaitTime   = 60 * time.Second
	DefaultMaxLeases  = 65536
	DefaultAppliers   = 4
	DefaultBacklog    = 64 << 20
	DefaultMaxRecord  = push.DefaultMaxRecord
)

// Config of a Server. Zero fields mean the defaults. It is copied.
type Config struct {
	// Dir has the logs and the leases. It must exist, and belong to the user of the server
	// alone: who can write to it writes to the exports.
	Dir string
	// Store keeps the logs instead of files in Dir.
	Store push.Store
	// Kind is the kind of memory of the logs in Dir.
	Kind pmem.Kind
	// Addr is told to clients as the address for commit connections; see push.Server.Addr.
	Addr string
	// Limits bound what clients may have of logs.
	Limits push.Limits
	// RecallTime is how long a client may take to return a lease before its log is fenced;
	// WaitTime how long an NFS operation waits for all of that before it is answered
	// NFS3ERR_JUKEBOX. If zero, 10 s and 60 s.
	RecallTime, WaitTime time.Duration
	// MaxLeases bounds the leases of all logs together; each has 1024. If zero, 65536.
	MaxLeases int
	// MaxRecord is the largest record in octets, with its head. If zero, 1 MiB.
	MaxRecord int
	// Appliers is how many logs are applied at the same time. If zero, 4.
	Appliers int
	// Backlog is how many octets of records may wait to be applied, in all logs together,
	// before clients are asked to keep less in their rings. If zero, 64 MiB.
	Backlog uint64
	// Logger gets a line per lease that is recalled or fenced, and per record that cannot
	// be applied. Nil: none.
	Logger *zap.Logger

	linger time.Duration // tests have no time
}

func (c *Config) fill() *Config {
	f := *c
	set(&f.RecallTime, DefaultRecallTime)
	set(&f.WaitTime, DefaultWaitTime)
	set(&f.MaxLeases, DefaultMaxLeases)
	set(&f.MaxRecord, DefaultMaxRecord)
	set(&f.Appliers, DefaultAppliers)
	set(&f.Backlog, DefaultBacklog)
	set(&f.linger, defaultLinger)
	if f.Store == nil {
		f.Store = push.Dir(f.Dir, f.Kind)
	}
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	return &f
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Files is where records are written to: a *server.Server. Its errors are nfs3.Status.
type Files interface {
	Add(p server.Program)
	// Grant checks the caller's right to write to a file.
	Grant(ctx context.Context, c *server.Call, h nfs3.FileHandle) (*server.Grant, server.Room, error)
	// WriteGrant writes all of p at off; it checks again, and may write UNSTABLE.
	WriteGrant(g *server.Grant, p []byte, off uint64) (nfs3.WriteVerf, error)
	// SyncGrant makes what was written durable.
	SyncGrant(g *server.Grant) (nfs3.WriteVerf, error)
}

var _ Files = (*server.Server)(nil)
