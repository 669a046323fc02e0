package execute

import (
	"bytes"
	"context"
	"net"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Duplicates is a server's duplicate request cache. It works on calls as handlers see them, so that
// it does not matter how they came or how their replies are sent. It is safe for concurrent use.
type Duplicates struct {
	start time.Time
	pause time.Duration // the most time between two calls that counts
	owner func(net.Addr) string

	mu               shared.Mutex
	seen, age        time.Duration // since the start, and how much of it has counted
	cache            *cache
	waiting          map[*Entry]chan struct{} // closed when the call has ended
	replayed, joined uint64
	unsure           uint64
}

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
		start: time.Now(), pause: l.Time / drcPauses, owner: l.Owner,
		waiting: make(map[*Entry]chan struct{}),
	}
	d.cache = newCache(cacheLimits{
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
	at := time.Since(d.start) // monotonic: the clock of the machine may be set
	d.age += min(at-d.seen, d.pause)
	d.seen = at
	return int64(d.age)
}

// Covers reports whether a call is looked up in the cache. One with RPCSEC_GSS that nobody has opened here is not: the
// verifier of its reply is made for one sequence number, and a retransmission has another one (RFC 2203 Section 5.3.3.1).
func (d *Duplicates) Covers(req *rpc.Request) bool {
	return d.cache.lim.Entries > 0 && (req.GSS != nil || req.Cred.Flavor != xdr.RPCSECGSS)
}

// key returns what distinguishes a call from others, but for the content of its arguments. A credential that is not
// verified is not believed: so all that a handler may ask for beside it is in the key, and who claims to be another one
// finds none of his calls. A principal is who he is in any context, and with any sequence number.
func (d *Duplicates) key(req *rpc.Request) callid.Call {
	k := callid.Of(req.RemoteAddr, &req.CallHeader, argsLen(req)) // of the whole arguments, wherever they still are
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
	running := func(k *callid.Call) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.cache.running > 0 && (k == nil || d.cache.Running(*k))
	}
	if !running(nil) { // most of the time: no key is made then
		return false
	}
	k := d.key(req) // not under the lock: it asks the owner
	return running(&k)
}

// Begin enters a new call, which is to be run. For a duplicate it returns the reply to the first
// call, and waits for it if that still runs. If it returns neither, the call gets no answer: ctx has
// ended, or it cannot be known whether it is a duplicate.
//
// Choice: a duplicate of a running call waits. If it were dropped, as servers on UDP do, it might
// never be answered: the reply to the first one goes to a connection that is gone.
func (d *Duplicates) Begin(ctx context.Context, req *rpc.Request) (*Entry, *SavedReply) {
	k := d.key(req)
	if l := deferred(req); l != nil { // before anything is read
		l.BeginSum()
	}
	sum := sumOf(req)
	for joined := false; ; {
		e, answer, ended := d.ask(k, sum, joined)
		switch answer {
		case callNew:
			return e, nil
		case callAnswered:
			return nil, e.reply
		case callUnsure:
			return nil, nil
		case callUnread:
			if fetch(ctx, req) != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.unsure++
				return nil, nil
			}
			sum = sumOf(req) // now it is known; others may have come meanwhile, so ask again
			continue
		case callRuns:
		}
		joined = true // it is counted once, however often it has to ask
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
		return nil, e.reply, false
	default:
		return nil, nil, true
	}
}

// learn notes the sum of a call whose data were at the client when it began.
func (d *Duplicates) learn(e *Entry, sum callid.Sum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.sum = sum
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
	if ch := d.waiting[e]; ch != nil { // after the reply is there: who wakes asks for it
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

// Deferred is what the transport leaves at the client of a call until a handler wants it.
type Deferred interface {
	memory.Deferred
	// BeginSum makes the octets that are read from now on count in Sum.
	BeginSum()
	// Sum returns the sum of the complete arguments, of which args are not at the client. It is unknown as long as some
	// of them are.
	Sum(args []byte) callid.Sum
	// ArgsLen returns the octets of the complete arguments.
	ArgsLen() int
	// Fetch reads what is left, and returns the complete arguments.
	Fetch(ctx context.Context) ([]byte, error)
	// Begun reports whether the handler has asked for data, Failed whether they could not be read.
	Begun() bool
	Failed() bool
}

// deferred returns the data of a call that are at the client, nil if there are none.
func deferred(r *rpc.Request) Deferred {
	l, _ := r.Deferred.(Deferred)
	return l
}

// argsLen returns the length of the complete arguments.
func argsLen(r *rpc.Request) int {
	if l := deferred(r); l != nil {
		return l.ArgsLen()
	}
	return len(r.Args)
}

// sumOf returns the sum of all octets of the arguments. It is unknown as long as some of them are at the
// client.
func sumOf(r *rpc.Request) callid.Sum {
	if l := deferred(r); l != nil {
		return l.Sum(r.Args)
	}
	return callid.SumOf(r.Args)
}

// fetch reads all data that are still at the client, so that the arguments are complete.
func fetch(ctx context.Context, r *rpc.Request) error {
	args, err := deferred(r).Fetch(ctx)
	if err == nil {
		r.Args, r.Deferred = args, nil
	}
	return err
}

// SavedReply is the reply to a call as the handler has made it, before it is encoded: it is encoded
// again for the chunks that a retransmission offers. It never changes.
type SavedReply struct {
	header  xdr.ReplyHeader
	results []byte
	items   []chunks.Item // as of rpc.Response.Items
	Record  []byte        // behind a Listener: the whole reply, instead of the other fields
}

// savedOverhead is about how many octets a reply costs besides its own: the entry, its places in
// the maps, the savedReply.
const savedOverhead = 512

// save copies a reply.
func save(r *rpc.Response) *SavedReply {
	v := &SavedReply{header: r.Header(0)}
	v.header.Verf.Body = bytes.Clone(r.Verf.Body)
	if !r.HasResults() {
		return v
	}
	v.results = bytes.Clone(r.Results)
	for _, it := range r.Lent.Items {
		v.items = append(v.items, chunks.Item{Pos: it.Pos, Data: bytes.Clone(it.Data)})
	}
	return v
}

// size returns the memory that v takes, in octets.
func (v *SavedReply) size() int64 {
	n := savedOverhead + len(v.header.Verf.Body) + len(v.results) + len(v.Record)
	for _, it := range v.items {
		n += len(it.Data)
	}
	return int64(n)
}

// restore makes r, which is empty, the reply. It lends the data of the items, which outlive the reply.
func (v *SavedReply) restore(r *rpc.Response) {
	r.Stat, r.Low, r.High, r.Verf = v.header.Accept, v.header.Low, v.header.High, v.header.Verf
	if v.header.Denied {
		r.Refuse(v.header)
	}
	r.Results = append(r.Results, v.results...)
	r.Lent.Items = append(r.Lent.Items, v.items...)
}
