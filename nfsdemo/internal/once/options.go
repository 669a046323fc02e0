package once

import "time"

// Defaults of Options.
const (
	DefaultCapacity = 16 << 20
	DefaultEntries  = 4096
	DefaultTime     = 15 * time.Minute
)

// Options of a journal. Nil and zero fields mean the defaults. OpenDir and Open copy them.
type Options struct {
	// Capacity is the size in octets of the ring of a log that OpenDir makes: a multiple of
	// 4096, at least 256 KiB. An eighth of it is for kept replies. An existing log keeps its
	// size. If zero, 16 MiB.
	Capacity int
	// Entries is how many replies are kept in total, at most an eighth of them for one client
	// address. Of the clients at an address, those with the most replies lose theirs first. If
	// zero, 4096.
	Entries int
	// Time is how long a reply is kept. The time between a crash and the restart does not
	// count. If zero, 15 minutes.
	Time time.Duration
}

// One address may have a part of the replies, one in share, as in the transport's cache.
const share = 8

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Capacity == 0 {
		d.Capacity = DefaultCapacity
	}
	if d.Entries <= 0 {
		d.Entries = DefaultEntries
	}
	if d.Time <= 0 {
		d.Time = DefaultTime
	}
	return d
}
