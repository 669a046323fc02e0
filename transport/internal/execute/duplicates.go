package execute

import (
	"context"
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Duplicates is a server's duplicate request cache. It works on calls as handlers see them, so that
// it does not matter how they came or how their replies are sent. It is safe for concurrent use.
type Duplicates struct {
	off   bool // no call is looked up
	start time.Time
	pause time.Duration // the most time between two calls that counts
	owner func(net.Addr) string

	mu               shared.Mutex
	seen, age        time.Duration // since the start, and how much of it has counted
	cache            *cache[*SavedReply]
	waiting          map[*Entry]chan struct{} // closed when the call has ended
	replayed, joined uint64
	unsure           uint64
}

// Entry is a call in the cache that runs, or has run.
type Entry = entry[*SavedReply]

// Limits are those of the cache: replies, which are looked up if there may be any, their octets, and the time for
// which they are kept.
type Limits struct {
	Entries int
	Memory  int64
	Time    time.Duration
	Owner   func(net.Addr) string // who has the other end of a connection, as far as is known; nil: of none
}

// NewDuplicates makes the cache. Only calls that must not run twice may be looked up in it.
func NewDuplicates(l Limits) *Duplicates {
	d := &Duplicates{
		off: l.Entries <= 0, start: time.Now(), pause: l.Time / drcPauses, owner: l.Owner,
		waiting: make(map[*Entry]chan struct{}),
	}
	d.cache = newCache[*SavedReply](cacheLimits{
		Entries: l.Entries, PerAddr: max(l.Entries/drcShare, 1),
		Octets: l.Memory, Time: int64(l.Time),
	})
	return d
}

// drcShare: one address may fill one part in drcShare of the cache. A client retransmits no more
// calls than it has credits, and one that floods must not cost others their replies.
const drcShare = 8

// drcPauses is how many long times without calls there may be before replies expire.
//
// Choice: a server that was stopped (a paused machine, a debugger) first receives the calls that
// its clients have sent again meanwhile, and must still know them. So only a part of a time without
// calls counts; the cache does not grow then either.
const drcPauses = 4

// now returns the time of the cache in ns. The caller holds d.mu.
func (d *Duplicates) now() int64 {
	at := time.Since(d.start)
	d.age += min(at-d.seen, d.pause)
	d.seen = at
	return int64(d.age)
}

// Covers reports whether a call is looked up in the cache. One with RPCSEC_GSS that nobody has opened here is not: the
// verifier of its reply is made for one sequence number, and a retransmission has another one (RFC 2203 Section 5.3.3.1).
func (d *Duplicates) Covers(req *rpc.Request) bool {
	return !d.off && (req.GSS != nil || req.Cred.Flavor != xdr.RPCSECGSS)
}

// key returns what distinguishes a call from others, but for the content of its arguments. A credential that is not
// verified is not believed: so all that a handler may ask for beside it is in the key, and who claims to be another one
// finds none of his calls. A principal is who he is in any context, and with any sequence number.
func (d *Duplicates) key(req *rpc.Request) callid.Call {
	k := callid.Of(req.RemoteAddr, &req.CallHeader, argsLen(req))
	if g := req.GSS; g != nil {
		k.Client.Cred = g.Principal.Mechanism + "\x00" + g.Principal.Name
		return k
	}
	k.Client.Shows = shows(req)
	if d.owner != nil {
		k.Client.Owner = d.owner(req.RemoteAddr)
	}
	return k
}

// shows returns what tells the connection of a call from others of its address: whether its port over TCP is one that only
// root can have, and how it is protected. A client that connects again shows the same.
func shows(req *rpc.Request) (bits uint8) {
	if req.Network != "tcp" || !peeraddr.Reserved(req.RemoteAddr) { // over RDMA, too, any user may have made it
		bits |= 1
	}
	if req.TLS != nil {
		bits |= 2
		if len(req.TLS.VerifiedChains) > 0 {
			bits |= 4
		}
	}
	return bits
}

// Running reports whether a call may be a duplicate of one that runs now, for which it would have to
// wait.
func (d *Duplicates) Running(req *rpc.Request) bool {
	if !d.Covers(req) {
		return false
	}
	return d.busy() && d.runs(d.key(req))
}

// busy reports whether any call runs: then it is worth to make a key.
func (d *Duplicates) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cache.Stats().Running > 0
}

func (d *Duplicates) runs(k callid.Call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cache.Running(k)
}

// Begin enters a new call, which is to be run. For a duplicate it returns the reply to the first
// call, and waits for it if that still runs. If it returns neither, the call gets no answer: ctx has
// ended, or it cannot be known whether it is a duplicate.
//
// Choice: a duplicate of a running call waits. If it were dropped, as servers on UDP do, it might
// never be answered: the reply to the first one goes to a connection that is gone.
func (d *Duplicates) Begin(ctx context.Context, req *rpc.Request) (*Entry, *SavedReply) {
	k := d.key(req)
	if l := deferred(req); l != nil {
		l.BeginSum()
	}
	sum := sumOf(req)
	for joined := false; ; {
		e, answer, ended := d.ask(k, sum, joined)
		switch answer {
		case callNew:
			return e, nil
		case callAnswered:
			return nil, e.Value
		case callUnsure:
			return nil, nil
		case callUnread:
			if fetch(ctx, req) != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.unsure++
				return nil, nil
			}
			sum = sumOf(req)
			continue
		case callRuns:
		}
		joined = true
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// ask is Begin of the cache, and counts. If the answer is to wait, ended is closed when the call of e has ended; joined
// says that the caller has waited before.
func (d *Duplicates) ask(k callid.Call, sum callid.Sum, joined bool) (e *Entry, answer verdict, ended chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, answer = d.cache.Begin(k, sum, d.now())
	switch answer {
	case callNew, callUnread:
	case callAnswered:
		if !joined {
			d.replayed++
		}
	case callUnsure:
		d.unsure++
	case callRuns:
		if !joined {
			d.joined++
		}
		if ended = d.waiting[e]; ended == nil {
			ended = make(chan struct{})
			d.waiting[e] = ended
		}
	}
	return e, answer, ended
}

// Enter is begin for callers that must not wait, and whose calls are complete: later says that the
// same call runs now.
func (d *Duplicates) Enter(req *rpc.Request) (e *Entry, old *SavedReply, later bool) {
	k, sum := d.key(req), sumOf(req)
	d.mu.Lock()
	defer d.mu.Unlock()
	e, answer := d.cache.Begin(k, sum, d.now())
	switch answer {
	case callNew:
		return e, nil, false
	case callAnswered:
		d.replayed++
		return nil, e.Value, false
	default:
		return nil, nil, true
	}
}

// learn notes the sum of a call whose data were at the client when it began.
func (d *Duplicates) learn(e *Entry, sum callid.Sum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cache.Learn(e, sum)
}

// End keeps the reply of a call, or, with nil, forgets the call.
func (d *Duplicates) End(e *Entry, v *SavedReply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v != nil {
		d.cache.Finish(e, v, v.size(), d.now())
	} else {
		d.cache.Forget(e)
	}
	if ch := d.waiting[e]; ch != nil {
		delete(d.waiting, e)
		close(ch)
	}
}

// AddStats adds the cache's counters to s.
func (d *Duplicates) AddStats(s *rpc.Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.cache.Stats()
	s.Replayed, s.Joined, s.Unsure = d.replayed, d.joined, d.unsure
	s.DRCEntries, s.DRCOctets, s.DRCEvicted = c.Entries, c.Octets, c.Evicted
}
