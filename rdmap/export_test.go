package rdmap

import (
	"sync"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

const MaxDepth = maxDepth

// Mem returns the memory of p.
func (p *Pool) Mem() *buf.Pool { return p.mem }

// WithDefaults returns cfg as the engine sees it.
func (cfg *Config) WithDefaults() Config { return cfg.withDefaults() }

// Defaults of Config, whose documentation has them in figures.
const (
	DefaultIRD            = defaultIRD
	DefaultORD            = defaultORD
	DefaultRecvSize       = defaultRecvSize
	DefaultRecvs          = defaultRecvs
	DefaultRequestTimeout = defaultRequestTimeout
	DefaultWriteTimeout   = defaultWriteTimeout
	DefaultMemoryTimeout  = defaultMemoryTimeout
	DefaultFPDUTimeout    = defaultFPDUTimeout
	DefaultCloseTimeout   = defaultCloseTimeout
	DefaultMaxHandlers    = defaultMaxHandlers
)

// What the tests outside reach below the API: who reads, who writes, and what a connection still holds.
//
// Inside the package stay the tests of alarms and yielding; of the rig of Read Responses (direct_test.go), which feeds the
// receiving half without a link; of the order of completions (readdone_test.go); and of the chain of Waiters
// (waiters_test.go).

type (
	Writer   = writer
	Link     = link
	Source   = reading.Source
	Patience = patience
	Stream   = stream
)

const (
	Free, Watched, Parked, Caller    = reading.Free, reading.Watched, reading.Parked, reading.Caller
	Serving, Watcher, Drainer, Ended = reading.Server, reading.Watcher, reading.Drainer, reading.Ended

	Always        = always
	FlushTurn     = flushTurn
	TickEvery     = reading.TickEvery
	WatchdogRest  = watchdogRest
	WatchdogTick  = watchdogTick
	WatchdogAlert = watchdogAlert
)

var NewStream = newStream

func (c *Conn) Role() *reading.Role { return &c.role }
func (c *Conn) Mu() *sync.Mutex     { return &c.mu }
func (c *Conn) Writer() *Writer     { return &c.writer }
func (c *Conn) Link() Link          { return c.link }
func (c *Conn) SetLink(l Link) {
	c.mu.Lock()
	c.link = l
	c.role.Init((*inlet)(c), l, c.tick)
	c.mu.Unlock()
}

func (c *Conn) Copied() int                     { c.mu.Lock(); defer c.mu.Unlock(); return c.snd.Copied }
func (c *Conn) ReadOnce(wait bool) (int, error) { return c.role.ReadOnce(wait) }
func (c *Conn) Placed() bool                    { return c.intake.placed }
func (c *Conn) FreeReader()                     { c.role.Free() }
func (c *Conn) Readable()                       { c.role.Readable() }
func (c *Conn) Interrupt()                      { c.role.Interrupt() }
func (c *Conn) Uncork()                         { c.uncork() }
func (c *Conn) Finish()                         { c.finish() }
func (c *Conn) HasFailed(err error)             { c.mu.Lock(); c.snd.Fail(err, false, false, nil); c.mu.Unlock() }
func (c *Conn) InUpcall() bool                  { return c.upcalls.Load()&1 == 1 }
func (c *Conn) Takeovers() int64                { return c.takeovers.Load() }
func (c *Conn) AwaitsRest() bool                { return c.partial.rest.Load() != nil }
func (c *Conn) NewWatchdog() (*watchdog, *reading.Ticker) {
	t := reading.NewTicker(watchdogRest, watchdogTick, false)
	return &watchdog{c: c, t: t}, t
}
