package transport

import (
	"context"
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/drc"
	"github.com/stag-rdma/stag/xdr"
)

// duplicates is a server's duplicate request cache. It works on calls as handlers see them, so that
// it does not matter how they came or how their replies are sent. It is safe for concurrent use.
type duplicates struct {
	names nonIdempotent // nil: no call is looked up
	lazy  lazyHandler   // nil: arguments are always complete
	bind  chunks.Binding
	seed  maphash.Seed
	start time.Time
	pause time.Duration // the most time between two calls that counts

	mu               sync.Mutex
	seen, age        time.Duration // since the start, and how much of it has counted
	cache            *drc.Cache[*savedReply]
	waiting          map[*dupEntry]chan struct{} // closed when the call has ended
	replayed, joined uint64
}

type dupEntry = drc.Entry[*savedReply]

// newDuplicates makes the cache for cfg, if h, a Handler or a part of one, names calls for it.
func newDuplicates(h any, cfg *Config) *duplicates {
	d := &duplicates{
		bind: cfg.Binding, seed: maphash.MakeSeed(), start: time.Now(), pause: cfg.DRCTime / drcPauses,
		waiting: make(map[*dupEntry]chan struct{}),
	}
	if cfg.DRCEntries > 0 {
		d.names, _ = h.(nonIdempotent)
		d.lazy, _ = h.(lazyHandler)
	}
	d.cache = drc.New[*savedReply](drc.Limits{
		Entries: cfg.DRCEntries, PerAddr: max(cfg.DRCEntries/drcShare, 1),
		Octets: cfg.DRCMemory, Time: int64(cfg.DRCTime),
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
func (d *duplicates) now() int64 {
	at := time.Since(d.start)
	d.age += min(at-d.seen, d.pause)
	d.seen = at
	return int64(d.age)
}

// sumLen is how many octets of the arguments are summed. Choice: enough for all arguments of calls
// that name files, but not for the data of a large WRITE, whose file, offset and length come first.
const sumLen = 4096

// covers reports whether a call is looked up in the cache.
//
// Choice: no calls with RPCSEC_GSS. The verifier of a reply is made for one sequence number, and a
// retransmission has another one (RFC 2203 Section 5.3.3.1); nor does the key distinguish the
// users.
func (d *duplicates) covers(req *Request) bool {
	return d.names != nil && req.Cred.Flavor != xdr.RPCSECGSS && d.names.NonIdempotent(req.Prog, req.Vers, req.Proc)
}

// key returns what distinguishes a call from others.
func (d *duplicates) key(req *Request) drc.Key {
	head, n := d.summed(req)
	return drc.Key{
		Client: clientOf(req),
		XID:    req.XID, Prog: req.Prog, Vers: req.Vers, Proc: req.Proc,
		Len: n, Sum: maphash.Bytes(d.seed, head),
	}
}

// clientOf returns who calls. Only the parts of an AUTH_SYS credential count that are the same in a
// retransmission; the stamp and the groups do not.
func clientOf(req *Request) drc.Client {
	c := drc.Client{Addr: hostOf(req.RemoteAddr), Flavor: uint32(req.Cred.Flavor)}
	if req.Cred.Flavor == xdr.AuthSys {
		if sys, err := xdr.ParseSysCred(req.Cred.Body); err == nil {
			c.Machine, c.UID = sys.MachineName, sys.UID
		}
	}
	return c
}

// hostOf returns an address without its port: a retransmission comes from another port.
func hostOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().String()
	}
	if a == nil {
		return ""
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().String()
	}
	return a.String()
}

// running reports whether a call is a duplicate of one that runs now, for which it would have to wait.
func (d *duplicates) running(req *Request) bool {
	if !d.covers(req) {
		return false
	}
	k := d.key(req)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cache.Running(k)
}

// begin enters a new call, which is to be run. For a duplicate it returns the reply to the first
// call, and waits for it if that still runs. If it returns neither, ctx has ended.
//
// Choice: a duplicate of a running call waits. If it were dropped, as servers on UDP do, it might
// never be answered: the reply to the first one goes to a connection that is gone.
func (d *duplicates) begin(ctx context.Context, req *Request) (*dupEntry, *savedReply) {
	k := d.key(req)
	for joined := false; ; joined = true {
		d.mu.Lock()
		e, first := d.cache.Begin(k, d.now())
		switch {
		case first:
			d.mu.Unlock()
			return e, nil
		case e.Done():
			if !joined {
				d.replayed++
			}
			d.mu.Unlock()
			return nil, e.Value
		}
		if !joined {
			d.joined++
		}
		ended := d.waiting[e]
		if ended == nil {
			ended = make(chan struct{})
			d.waiting[e] = ended
		}
		d.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// enter is begin for callers that must not wait: later says that the same call runs now.
func (d *duplicates) enter(req *Request) (e *dupEntry, old *savedReply, later bool) {
	k := d.key(req)
	d.mu.Lock()
	defer d.mu.Unlock()
	e, first := d.cache.Begin(k, d.now())
	switch {
	case first:
		return e, nil, false
	case e.Done():
		d.replayed++
		return nil, e.Value, false
	}
	return nil, nil, true
}

// end keeps the reply of a call, or, with nil, forgets the call.
func (d *duplicates) end(e *dupEntry, v *savedReply) {
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

// stats adds the cache's counters to s.
func (d *duplicates) stats(s *Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.cache.Stats()
	s.Replayed, s.Joined = d.replayed, d.joined
	s.DRCEntries, s.DRCOctets, s.DRCEvicted = c.Entries, c.Octets, c.Evicted
}
