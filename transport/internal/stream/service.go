// Package stream carries calls over record-marked TCP (RFC 5531 Section 11), or any other byte stream, at both ends. A
// client's callers read for themselves (package reading). A server's connection has a goroutine that reads, which runs
// short calls itself; it takes memory for a record from the gate before it reads it.
package stream

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
)

// Config holds the settings of a record-marked connection, all of them set.
type Config struct {
	Credits         int // calls in flight
	BackwardCredits int // 0: no backward direction
	MaxPayload      int // octets of a record
	Binding         chunks.Binding
	AnyCred         bool          // no credential is refused
	TLS             bool          // a server answers the probe of RFC 9289
	NoClear         bool          // a server runs no call outside TLS
	HandlerLimit    time.Duration // of calls in the goroutine that reads; 0 or less: none run there
	CallTimeout     time.Duration // of calls whose context has no deadline; 0: none
}

// Hooks tell the server above.
type Hooks struct {
	Add    func(*Conn) error // a connection was admitted
	Drop   func(*Conn)       // it has ended, and so have its calls
	Closed error             // why connections end that were told to
}

// Service is what the connections of a server share. It is safe for concurrent use.
type Service struct {
	ctx   context.Context // of all handlers
	cfg   Config
	ctr   *memory.Counters
	gate  *admit.Gate
	exec  *execute.Executor
	hooks Hooks
}

// NewService returns the Service of a server.
func NewService(ctx context.Context, cfg Config, ctr *memory.Counters, g *admit.Gate, e *execute.Executor, h Hooks) *Service {
	return &Service{ctx: ctx, cfg: cfg, ctr: ctr, gate: g, exec: e, hooks: h}
}
