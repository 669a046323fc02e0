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

// Config of a Server. Zero fields mean the defaults. Open copies it.
type Config struct {
	// Dir holds the logs and the leases. It must exist, and only the user of the server may
	// have access to it: whoever can write to it can write to the exports.
	Dir string
	// Store keeps the logs instead of files in Dir.
	Store push.Store
	// Kind is the kind of memory of the logs in Dir.
	Kind pmem.Kind
	// Addr is the address for commit connections that clients are told; see push.Server.Addr.
	Addr string
	// Limits limit the logs that clients may have.
	Limits push.Limits
	// RecallTime is how long a client may take to return a lease before its log is fenced.
	// WaitTime is how long an NFS operation waits for leases and records before it is
	// answered NFS3ERR_JUKEBOX. If zero, 10 s and 60 s.
	RecallTime, WaitTime time.Duration
	// MaxLeases limits the leases of all logs together; one log may have 1024. If zero, 65536.
	MaxLeases int
	// MaxRecord is the size of the largest record in octets, including its head. If zero, 1 MiB.
	MaxRecord int
	// Appliers is how many logs are applied at the same time. If zero, 4.
	Appliers int
	// Backlog is how many octets of records may wait to be applied, in all logs together,
	// before clients are asked to use less of their rings. If zero, 64 MiB.
	Backlog uint64
	// Logger gets a line for every lease that is recalled, every log that is fenced, and every
	// record that cannot be applied. If nil, nothing is logged.
	Logger *zap.Logger

	linger time.Duration // tests make it shorter
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

// Files is where records are written: a *server.Server. Its errors are nfs3.Status.
type Files interface {
	Add(p server.Program)
	// Grant checks the caller's right to write to a file.
	Grant(ctx context.Context, c *server.Call, h nfs3.FileHandle) (*server.Grant, server.Room, error)
	// WriteGrant writes all of p, which it borrows, at off. It checks the right again, and may
	// write UNSTABLE.
	WriteGrant(g *server.Grant, p []byte, off uint64) (nfs3.WriteVerf, error)
	// SyncGrant makes all writes durable.
	SyncGrant(g *server.Grant) (nfs3.WriteVerf, error)
}

var _ Files = (*server.Server)(nil)
