package push

import (
	"cmp"
	"math"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
)

// Defaults of Limits.
const (
	defaultMaxLogs     = 1024
	defaultCapacity    = 1 << 20
	defaultMaxCapacity = 64 << 20
	defaultMaxOctets   = 1 << 30
	defaultOpens       = 50
	defaultFenceTime   = 5 * time.Second
	defaultAppendTime  = 10 * time.Second
	defaultMaxConns    = 4096
	defaultMaxReads    = 64
)

// Limits restricts what clients can take from a server. Zero fields mean the defaults.
type Limits struct {
	// MaxLogs limits the number of logs, and MaxOctets the total size of their rings in octets. If
	// zero, 1024 and 1 GiB.
	MaxLogs   int
	MaxOctets uint64
	// ClientLogs and ClientOctets limit how much of this one host may have: the logs that were made
	// for it count, wherever they are used from and whatever has become of them. A host is an address
	// without its port; clients behind one address share its limits. If zero, an eighth of MaxLogs and
	// a quarter of MaxOctets, and no limit for loopback addresses and peers without an IP address,
	// which may stand for any number of clients. If negative, no limit.
	ClientLogs   int
	ClientOctets int64
	// Capacity is the size in octets of a ring if its owner asks for no size. MaxCapacity is the size
	// of the largest ring: an owner who asks for more gets that. Both are at least 4096 and rounded down
	// to a multiple of 64. If zero, 1 MiB, or MaxCapacity if that is less, and 64 MiB.
	Capacity, MaxCapacity uint64
	// Opens is the number of OPENs per second that an address may make, and also the largest
	// burst. Further ones are answered with StatusBusy. If zero, 50.
	Opens int
	// FenceTime is how long an OPEN waits for running operations of the previous session. If zero,
	// 5 s.
	FenceTime time.Duration
	// AppendTime is how long an APPEND may take. One that takes longer ends its session. If zero,
	// 10 s.
	AppendTime time.Duration
	// MaxReads limits the READs that run at a time, most of which wait for records; one log may have an eighth
	// of them, and one host, by the rules of ClientLogs, a quarter. Further ones are answered with StatusBusy.
	// If zero, 64.
	MaxReads int
	// MaxConns limits the commit connections. One address may have an eighth as many that have not
	// shown a token yet. If zero, 4096.
	MaxConns int
}

// fill returns a checked copy of l with the defaults in place.
func (l Limits) fill() (Limits, error) {
	err := setting.Check(
		setting.Count("Limits.MaxLogs", l.MaxLogs),
		setting.Int("Limits.Capacity", l.Capacity, minCapacity, math.MaxInt64),
		setting.Int("Limits.MaxCapacity", l.MaxCapacity, minCapacity, math.MaxInt64),
		setting.Count("Limits.Opens", l.Opens),
		setting.Time("Limits.FenceTime", l.FenceTime),
		setting.Time("Limits.AppendTime", l.AppendTime),
		setting.Count("Limits.MaxReads", l.MaxReads),
		setting.Count("Limits.MaxConns", l.MaxConns),
	)
	l.MaxLogs = cmp.Or(l.MaxLogs, defaultMaxLogs)
	l.MaxOctets = cmp.Or(l.MaxOctets, defaultMaxOctets)
	l.MaxCapacity = cmp.Or(l.MaxCapacity, defaultMaxCapacity)
	l.Capacity = cmp.Or(l.Capacity, min(defaultCapacity, l.MaxCapacity))
	l.Opens = cmp.Or(l.Opens, defaultOpens)
	l.FenceTime = cmp.Or(l.FenceTime, defaultFenceTime)
	l.AppendTime = cmp.Or(l.AppendTime, defaultAppendTime)
	l.MaxReads = cmp.Or(l.MaxReads, defaultMaxReads)
	l.MaxConns = cmp.Or(l.MaxConns, defaultMaxConns)
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
