package once

import "time"

// Defaults of Options.
const (
	DefaultCapacity = 16 << 20
	DefaultEntries  = 4096
	DefaultTime     = 15 * time.Minute
)

// Options of a journal. Nil and zero fields mean the defaults. They are copied.
type Options struct {
	// Capacity is the ring of a log that OpenDir makes, octets: a multiple of 4096, from
	// 256 KiB on. An eighth of it is for replies that are kept. One that exists keeps
	// its own. If zero, 16 MiB.
	Capacity int
	// Entries is how many replies are kept in all, an eighth of them for one client
	// address, of whose clients those with the most replies lose them first. If zero, 4096.
	Entries int
	// Time is how long a reply is kept. The time between a crash and the restart does not
	// count. If zero, 15 minutes.
	Time time.Duration
}

// share is the part of the replies that one address may have, as in the transport's cache.
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
