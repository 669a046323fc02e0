package lockd

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"go.uber.org/zap"
)

// DefaultGrace is how long only reclaims are granted after a start, if some client has held locks before.
// Clients learn within a second or two that the server is back; 45 s is for those that
// have to be called twice.
const DefaultGrace = 45 * time.Second

// Bounds on what clients can make a Server keep.
const (
	maxClients  = 4096
	maxNames    = 16  // of clients at one address
	maxNameLen  = 255 // octets
	maxOutgoing = 64  // calls to clients, at a time
	maxLane     = 8   // of these to one address
	maxUnheard  = 48  // of these to addresses that have not answered the last one, or had none
	maxUnknown  = 2   // of these to one address
)

// Files are the files that can be locked: a [server.Server].
type Files interface {
	LockFile(ctx context.Context, c *server.Call, h nfs3.FileHandle, open bool) (backend.FS, []byte, error)
}

// Config says what a Server does. New copies it.
type Config struct {
	Files Files
	// Shared keep the locks of file systems that other servers serve too. What a client holds there outlives this
	// server and may have been given by another one. It needs no grace period: until its client reclaims it,
	// nobody else gets it.
	Shared []backend.Locker
	// File keeps the state and the names of the clients, so that they can be told when the server
	// is back. If empty, nothing is kept, which is right for files that end with the process.
	File string
	// Name is the name of this machine for its clients; if empty, the system knows it.
	Name string
	// Grace, if zero, is DefaultGrace.
	Grace time.Duration
	// Limits are those of locks that this process keeps. Its waits are those of clients that wait, and of those that
	// were not yet told that they have their lock.
	Limits Limits
	// RPCBindPort is where clients' rpcbind is asked; if zero, 111.
	RPCBindPort int
	// Retry is the wait before a client that did not answer is called again, then twice as long each time.
	// If zero, 2 s.
	Retry time.Duration
	// Logger gets lines about clients. If nil, nothing is logged.
	Logger *zap.Logger
}

func (c *Config) fill() Config {
	out := *c
	if out.Name == "" {
		out.Name, _ = os.Hostname() // clients also know us by our address
	}
	if out.Grace == 0 {
		out.Grace = DefaultGrace
	}
	if out.RPCBindPort == 0 {
		out.RPCBindPort = rpcbind.Port
	}
	if out.Retry == 0 {
		out.Retry = 2 * time.Second
	}
	if out.Logger == nil {
		out.Logger = zap.NewNop()
	}
	out.Limits = out.Limits.Fill()
	out.Limits.ShareOf = shareOf
	return out
}

// rpcbindAt is the address of a client's rpcbind.
func (c *Config) rpcbindAt(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(c.RPCBindPort))
}
