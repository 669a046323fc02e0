package push

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Rung says by what a client appends.
type Rung uint8

// The rungs, the best first.
const (
	// Native: RDMA Write, Flush and Atomic Write on a connection of their own.
	Native Rung = 1
	// Append: the RPC APPEND.
	Append Rung = 2
	// InFile: Config.File.
	InFile Rung = 3
)

// String returns "native", "append" or "file".
func (r Rung) String() string {
	switch r {
	case Native:
		return "native"
	case Append:
		return "append"
	case InFile:
		return "file"
	default:
		return fmt.Sprintf("Rung(%d)", uint8(r))
	}
}

// Defaults of Config.
const (
	DefaultMaxRecord   = 1 << 20
	DefaultMaxCall     = 512 << 10
	DefaultOpenTimeout = 15 * time.Second
	DefaultMinDelay    = 20 * time.Millisecond
	DefaultMaxDelay    = 5 * time.Second
)

// Config of a Session. Zero fields mean the defaults. It is copied.
type Config struct {
	// Secret proves that the log is one's own. If nil, one is asked for, which makes a new
	// log, and given to Keep before it is used. Keep must be set then; it returns when the
	// secret is where the next process of this owner finds it, or an error, which ends Dial.
	// A secret with which no Dial has ever succeeded may be void: there is no log of it.
	Secret *Secret
	Keep   func(Secret) error
	// Cred is the credential of the calls, for Server.Allow; the log itself knows the secret
	// alone. The zero value is AUTH_NONE.
	Cred xdr.Auth
	// Capacity is the ring of a new log in octets. If zero, what the server likes.
	Capacity uint64
	// Best is the first rung that is tried. If zero, Native.
	Best Rung
	// Host is where the commit connection goes when the server names no host; Dial makes
	// it, by TCP if nil. Ctx ends with the attempt.
	Host string
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// RDMA is the configuration of the commit connection; nil: the defaults.
	RDMA *rdmap.Config
	// Producer has the settings of how appends are grouped; nil: the defaults.
	Producer *commitlog.ProducerOptions
	// File is the last rung, for a server without the program. If nil, there is none.
	File File
	// MaxRecord is the largest record, in octets, on all rungs alike; MaxCall bounds the
	// records of one APPEND together, unless it has one only. The RPC client must carry
	// both. If zero, 1 MiB and 512 KiB.
	MaxRecord, MaxCall int
	// Callbacks is where the server's wishes about pressure arrive, between two OPENs, if
	// the RPC client has a backward direction. If nil, they are kept to from the next OPEN on.
	Callbacks *Callbacks
	// OpenTimeout bounds one attempt to open. If zero, 15 s.
	OpenTimeout time.Duration
	// MinDelay and MaxDelay bound the wait between attempts, which doubles, and is up to a
	// half shorter at random. If zero, 20 ms and 5 s.
	MinDelay, MaxDelay time.Duration
	// Opened, if set, is told the rung, epoch and next number of every session. It must
	// not block.
	Opened func(r Rung, epoch uint32, next uint64)
	// Logger gets a line per session and failure; nil discards.
	Logger *zap.Logger
}

// fill returns a copy of c with the defaults in place.
func (c *Config) fill() *Config {
	var f Config
	if c != nil {
		f = *c
	}
	set(&f.Best, Native)
	set(&f.MaxRecord, DefaultMaxRecord)
	set(&f.MaxCall, DefaultMaxCall)
	set(&f.OpenTimeout, DefaultOpenTimeout)
	set(&f.MinDelay, DefaultMinDelay)
	set(&f.MaxDelay, DefaultMaxDelay)
	if f.Dial == nil {
		f.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	return &f
}

// address puts the host in front of an address without one.
func (c *Config) address(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort(c.Host, port)
	}
	return addr
}
