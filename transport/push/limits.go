package push

import "time"

// Defaults of Limits.
const (
	DefaultMaxLogs      = 1024
	DefaultCapacity     = 1 << 20
	DefaultMaxCapacity  = 64 << 20
	DefaultMaxOctets    = 1 << 30
	DefaultMaxIssued    = 256
	DefaultOpens        = 50
	DefaultFlushes      = 100_000
	DefaultHashed       = 1 << 30
	DefaultIssueTime    = time.Minute
	DefaultTokenTime    = 10 * time.Second
	DefaultFenceTime    = 5 * time.Second
	DefaultAppendTime   = 10 * time.Second
	DefaultMaxConns     = 4096
	DefaultMaxOpenCalls = 64
)

// Limits of a server. Zero fields mean the defaults.
type Limits struct {
	// MaxLogs and MaxOctets bound the logs of the server and the octets of their rings
	// together. If zero, 1024 and 1 GiB.
	MaxLogs   int
	MaxOctets uint64
	// Capacity is the ring of a log, in octets, whose owner asks for none; MaxCapacity is
	// the most that an owner gets: who asks for more gets that. Both are rounded down to a
	// multiple of 64. If zero, 1 MiB and 64 MiB.
	Capacity, MaxCapacity uint64
	// MaxIssued bounds the secrets that are issued and not used yet, and IssueTime how long
	// they are good for. If zero, 256, of which an address has an eighth, and a minute.
	MaxIssued int
	IssueTime time.Duration
	// Opens is how many OPENs per second an address has, and at once; those beyond it are
	// answered with StatusBusy. If zero, 50.
	Opens int
	// MaxOpenCalls bounds the OPENs that run at a time. If zero, 64.
	MaxOpenCalls int
	// Flushes per second, and Hashed octets per second of Verify, are what the peer of one
	// log has, and at once. What is beyond them waits, at most 50 ms for each request. If
	// zero, 100,000 and 1 GiB.
	Flushes int
	Hashed  int
	// TokenTime is how long a token is good for. If zero, 10 s.
	TokenTime time.Duration
	// FenceTime is how long an OPEN waits for what the session before has running. If
	// zero, 5 s.
	FenceTime time.Duration
	// AppendTime is how long an APPEND may take; one that takes longer ends its session. If
	// zero, 10 s.
	AppendTime time.Duration
	// MaxConns bounds the commit connections. If zero, 4096. An address may have an eighth
	// as many that have not shown a token yet.
	MaxConns int
}

// fill returns l with the defaults in place.
func (l Limits) fill() Limits {
	set(&l.MaxLogs, DefaultMaxLogs)
	set(&l.MaxOctets, DefaultMaxOctets)
	set(&l.Capacity, DefaultCapacity)
	set(&l.MaxCapacity, DefaultMaxCapacity)
	set(&l.MaxIssued, DefaultMaxIssued)
	set(&l.IssueTime, DefaultIssueTime)
	set(&l.Opens, DefaultOpens)
	set(&l.MaxOpenCalls, DefaultMaxOpenCalls)
	set(&l.Flushes, DefaultFlushes)
	set(&l.Hashed, DefaultHashed)
	set(&l.TokenTime, DefaultTokenTime)
	set(&l.FenceTime, DefaultFenceTime)
	set(&l.AppendTime, DefaultAppendTime)
	set(&l.MaxConns, DefaultMaxConns)
	return l
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// minCapacity is the smallest ring that is made.
const minCapacity = 4096

// capacity returns the ring that who asks for want octets gets.
func (l *Limits) capacity(want uint64) uint64 {
	if want == 0 {
		want = l.Capacity
	}
	return max(min(want, l.MaxCapacity)&^63, minCapacity)
}
