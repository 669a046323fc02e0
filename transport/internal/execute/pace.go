package execute

import (
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
)

// paces are moving averages of how long calls that may block take, by procedure and class (see
// [rpc.Handler]). Those of a class whose average is short run in the goroutine that reads them: to hand
// over a WRITE of 64 KiB costs more than to run it. Two classes may share an average.
type paces [256]Pace

// Pace is the average of a class in ns, 0 as long as none of its calls has ended.
type Pace struct {
	avg  atomic.Int64
	most atomic.Int64 // octets of large replies, falling slowly
}

// Largest returns how many octets the replies to such calls have taken lately.
func (p *Pace) Largest() int { return int(p.most.Load()) }

// Sent notes a reply of n octets.
func (p *Pace) Sent(n int) {
	most := p.most.Load()
	p.most.Store(max(int64(n), most-most/256))
}

// shortShare: a call is short if it takes one part in shortShare of Reading.HandlerLimit: 125 us with
// the default. That is above a WRITE or READ of 64 KiB in memory (10 to 30 us) and below one that
// waits for a disk, beside which others should run.
const shortShare = 8

// of returns the pace of a call's class.
func (p *paces) of(class uint32, req *rpc.Request) *Pace {
	h := (req.Prog*31+req.Proc)*31 + class
	return &p[h*2654435761>>24]
}

// Short reports whether the calls of the class may run where they were read. Without a watchdog none
// may.
func (p *Pace) Short(grace time.Duration) bool {
	return grace > 0 && time.Duration(p.avg.Load()) <= grace/shortShare
}

// Ran notes that a call has run for d. Beyond the grace d does not count: then the watchdog has let
// another goroutine read.
func (p *Pace) Ran(d, grace time.Duration) {
	avg := p.avg.Load()
	p.avg.Store(avg + (int64(min(d, grace))-avg)/8)
}
