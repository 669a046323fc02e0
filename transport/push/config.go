package push

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/commitlog"
	"go.uber.org/zap"
)

// Rung says how a client appends.
type Rung uint8

// The rungs, the best first.
const (
	// Native: RDMA Write, Flush and Atomic Write on a separate connection.
	Native Rung = 1
	// Append: the RPC procedure APPEND.
	Append Rung = 2
)

// String returns "native" or "append".
func (r Rung) String() string {
	switch r {
	case Native:
		return "native"
	case Append:
		return "append"
	default:
		return fmt.Sprintf("Rung(%d)", uint8(r))
	}
}

// Defaults of Config.
const (
	DefaultMaxRecord = 1 << 20
	defaultSilence   = time.Minute
)

// Config is the configuration of a Session. Zero fields mean the defaults. Dial copies it.
type Config struct {
	// Secret proves ownership of the log. It must be set, to random octets (NewSecret) that are kept where the
	// next process of this owner finds them, before Dial: the first OPEN with a free name makes a log that
	// belongs to this secret, and whoever has lost the secret has lost the log. If the answer to that OPEN is
	// lost, the next Dial with the same secret finds the log.
	Secret Secret
	// Capacity is the size in octets of the ring of a new log. If zero, the server chooses.
	Capacity uint64
	// Best is the first rung that is tried. If zero, Native.
	Best Rung
	// Host is the host of the commit connection if the server names none. Dial opens the
	// connection; if nil, by TCP. Its ctx ends with the attempt.
	Host string
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Producer says whether appends are verified, and by its Silence how long they wait for a server that gives no sign
	// of life, connected or not: then they end with commitlog.ErrSilent, while the Session goes on trying to open
	// the log. Nil and zero fields mean the defaults; that of Silence is one minute here. Negative: for ever.
	Producer *commitlog.ProducerOptions
	// MaxRecord is the size of the largest record, in octets, on every rung. The RPC client must be able to send
	// it, and 512 KiB. If zero, 1 MiB; at most 1 GiB.
	MaxRecord int
	// Logger gets a line per session and failure. If nil, nothing is logged.
	Logger *zap.Logger

	times times // tests make them shorter
}

// times are those of attempts to open: an attempt may take as long as open, and the wait between two is at least least,
// and doubles each time up to most. A Session that appends by call because commit connections came to nothing tries one
// after most, and then after twice as long each time, at most 256 times as long.
type times struct{ open, least, most time.Duration }

var defaultTimes = times{15 * time.Second, 20 * time.Millisecond, 5 * time.Second}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	err := setting.Check(
		setting.Int("Best", int(f.Best), int(Native), int(Append)),
		setting.Int("MaxRecord", f.MaxRecord, 1, maxPayload),
	)
	f.Best = cmp.Or(f.Best, Native)
	f.MaxRecord = cmp.Or(f.MaxRecord, DefaultMaxRecord)
	f.times = cmp.Or(f.times, defaultTimes)
	switch {
	case err != nil:
		return nil, err
	case f.Secret == (Secret{}):
		return nil, ErrNoSecret
	}
	if f.Logger == nil {
		f.Logger = zap.NewNop()
	}
	var p commitlog.ProducerOptions
	if f.Producer != nil {
		p = *f.Producer
	}
	p.Silence = cmp.Or(p.Silence, defaultSilence)
	f.Producer = &p
	return &f, nil
}

// Defaults of Limits.
const (
	defaultMaxLogs     = 1024
	defaultCapacity    = 1 << 20
	defaultMaxCapacity = 64 << 20
	defaultMaxOctets   = 1 << 30
)

// Limits restricts what clients can take from a server. Zero fields mean the defaults.
type Limits struct {
	// MaxLogs limits the number of logs, and MaxOctets the total size of their rings in octets. If
	// zero, 1024 and 1 GiB. One host may have an eighth and a quarter of them: the logs that were made
	// for it count, wherever they are used from and whatever has become of them. A host is an address
	// without its port; clients behind one address share its limits. There is no limit for loopback addresses
	// and peers without an IP address, which may stand for any number of clients.
	MaxLogs   int
	MaxOctets uint64
	// Capacity is the size in octets of a ring if its owner asks for no size. MaxCapacity is the size
	// of the largest ring: an owner who asks for more gets that. Both are at least 4096 and rounded down
	// to a multiple of 64. If zero, 1 MiB, or MaxCapacity if that is less, and 64 MiB.
	Capacity, MaxCapacity uint64

	fence, append time.Duration // tests set them: see fenceTime
}

const (
	fenceTime  = 5 * time.Second  // how long an OPEN waits for running operations of the previous session
	appendTime = 10 * time.Second // how long an APPEND may take; one that takes longer ends its session
)

// fill returns a checked copy of l with the defaults in place.
func (l Limits) fill() (Limits, error) {
	err := setting.Check(
		setting.Count("Limits.MaxLogs", l.MaxLogs),
		setting.Int("Limits.Capacity", l.Capacity, minCapacity, math.MaxInt64),
		setting.Int("Limits.MaxCapacity", l.MaxCapacity, minCapacity, math.MaxInt64),
	)
	l.MaxLogs = cmp.Or(l.MaxLogs, defaultMaxLogs)
	l.MaxOctets = cmp.Or(l.MaxOctets, defaultMaxOctets)
	l.MaxCapacity = cmp.Or(l.MaxCapacity, defaultMaxCapacity)
	l.Capacity = cmp.Or(l.Capacity, min(defaultCapacity, l.MaxCapacity))
	l.fence, l.append = cmp.Or(l.fence, fenceTime), cmp.Or(l.append, appendTime)
	if err == nil && l.Capacity > l.MaxCapacity {
		err = setting.Error("Limits.Capacity is %d, want at most Limits.MaxCapacity, %d", l.Capacity, l.MaxCapacity)
	}
	return l, err
}

// minCapacity is the smallest ring that is made.
const minCapacity = 4096

// capacity returns the size of the ring for an owner who asks for want octets.
func (l *Limits) capacity(want uint64) uint64 {
	if want == 0 {
		want = l.Capacity
	}
	return max(min(want, l.MaxCapacity)&^63, minCapacity)
}
