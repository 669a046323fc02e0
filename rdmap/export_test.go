package rdmap

import (
	"sync"

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
	Reader       = reader
	ReaderState  = readerState
	ReaderAction = readerAction
	Writer       = writer
	Link         = link
	Source       = source
	Patience     = patience
	Stream       = stream
)

const (
	Free, Watched, Parked, Caller    = readFree, readWatched, readParked, readCaller
	Serving, Watcher, Drainer, Ended = readServer, readWatcher, readDrainer, readEnded

	Watch, Unwatch, Interrupt, Again, AddTick = doWatch, doUnwatch, doInterrupt, doAgain, doAddTick

	Always        = always
	FlushTurn     = flushTurn
	TickEvery     = tickEvery
	WatchdogRest  = watchdogRest
	WatchdogTick  = watchdogTick
	WatchdogAlert = watchdogAlert
)

var ReadError, NewStream = readError, newStream

func (c *Conn) Role() *role                     { return &c.role }
func (c *Conn) Mu() *sync.Mutex                 { return &c.mu }
func (c *Conn) Writer() *Writer                 { return &c.writer }
func (c *Conn) Link() Link                      { return c.link }
func (c *Conn) SetLink(l Link)                  { c.mu.Lock(); c.link = l; c.mu.Unlock() }
func (c *Conn) Copied() int                     { c.mu.Lock(); defer c.mu.Unlock(); return c.snd.Copied }
func (c *Conn) ReadOnce(wait bool) (int, error) { return c.readOnce(wait) }
func (c *Conn) Placed() bool                    { return c.intake.placed }
func (c *Conn) FreeReader()                     { c.freeReader() }
func (c *Conn) Readable()                       { c.readable() }
func (c *Conn) Interrupt()                      { c.interrupt() }
func (c *Conn) Uncork()                         { c.uncork() }
func (c *Conn) Finish()                         { c.finish() }
func (c *Conn) HasFailed(err error)             { c.mu.Lock(); c.snd.Fail(err, false, false, nil); c.mu.Unlock() }
func (c *Conn) InUpcall() bool                  { return c.upcalls.Load()&1 == 1 }
func (c *Conn) Takeovers() int64                { return c.takeovers.Load() }
func (c *Conn) AwaitsRest() bool                { return c.partial.rest.Load() != nil }
func (c *Conn) NewWatchdog() (*watchdog, *ticker) {
	t := newTicker(watchdogRest, watchdogTick, false)
	return &watchdog{c: c, t: t}, t
}
func (r *role) Lock()          { r.mu.Lock() }
func (r *role) Unlock()        { r.mu.Unlock() }
func (r *role) First() *Waiter { return r.waiters.First() }
func (w *Waiter) Reads() bool  { return w.state.Load() == waiterReads }
