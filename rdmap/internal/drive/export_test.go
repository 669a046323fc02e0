package drive

import "sync"

// What the tests outside reach below the seam: who reads, who writes, and what a connection still holds.
//
// Inside the package stay the tests of alarms, epoll and yielding, which are not exported; of the rig of Read Responses
// (direct_test.go), which feeds the receiving half without a link; of the order of completions (readdone_test.go); and of
// the chain of Waiters (waiters_test.go).

const (
	FlushTurn     = flushTurn
	TickEvery     = tickEvery
	WatchdogRest  = watchdogRest
	WatchdogTick  = watchdogTick
	WatchdogAlert = watchdogAlert
)

func (d *Driver) Role() *role                     { return &d.role }
func (d *Driver) Mu() *sync.Mutex                 { return &d.mu }
func (d *Driver) Writer() *Writer                 { return &d.writer }
func (d *Driver) Link() Link                      { return d.link }
func (d *Driver) SetLink(l Link)                  { d.mu.Lock(); d.link = l; d.mu.Unlock() }
func (d *Driver) Copied() int                     { d.mu.Lock(); defer d.mu.Unlock(); return d.snd.Copied }
func (d *Driver) ReadOnce(wait bool) (int, error) { return d.readOnce(wait) }
func (d *Driver) Placed() bool                    { return d.intake.placed }
func (d *Driver) FreeReader()                     { d.freeReader() }
func (d *Driver) Readable()                       { d.readable() }
func (d *Driver) Interrupt()                      { d.interrupt() }
func (d *Driver) Uncork()                         { d.uncork() }
func (d *Driver) Finish()                         { d.finish() }
func (d *Driver) HasFailed(err error)             { d.mu.Lock(); d.snd.Fail(err, false, false, nil); d.mu.Unlock() }
func (d *Driver) InUpcall() bool                  { return d.upcalls.Load()&1 == 1 }
func (d *Driver) Takeovers() int64                { return d.takeovers.Load() }
func (d *Driver) AwaitsRest() bool                { return d.partial.rest.Load() != nil }
func (d *Driver) NewWatchdog() (*watchdog, *Ticker) {
	t := NewTicker(watchdogRest, watchdogTick, false)
	return &watchdog{d: d, t: t}, t
}
func (r *role) Lock()          { r.mu.Lock() }
func (r *role) Unlock()        { r.mu.Unlock() }
func (r *role) First() *Waiter { return r.waiters.First() }
func (w *Waiter) Reads() bool  { return w.state.Load() == waiterReads }
