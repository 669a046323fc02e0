package credits

// Pool distributes a number of credits among the connections of a process according to load. Each
// connection has a [Share], which bounds its grants.
//
// A share is never below one credit, and one credit is free: an idle connection costs
// the pool nothing, so there may be more connections than credits. Of the shares above
// one, the sum is never more than the pool:
//
//	credits outstanding, all connections ≤ pool + connections with a share of one
//
// A share follows its peer's use: it is doubled when the peer fills it, and halved when the peer
// leaves half of it unused. When there are not enough credits for all peers that fill their
// shares, these get about equal parts. Granted credits come back only with the calls that use
// them, since only a reply can tell the peer (RFC 8166 Section 3.3.1): a peer that falls silent
// keeps its credits until it calls again or its connection ends.
//
// Make one with NewPool. A Pool and its shares together are not safe for concurrent use.
type Pool struct {
	size    int64 // credits for shares above one
	held    int64 // of them given out
	pairs   int64 // shares of two: peers with one call at a time, or two
	larger  int64 // shares above two
	members int64 // shares
	joined  int64 // spread of the next share
	owed    int64 // credits kept free for a share that wants more and has less than a fair one
	patient int64 // answers until owed is given up: the peers that have too many may be silent
}

// NewPool returns a pool of n credits, 1 to 2^31-1; values outside count as the nearest
// inside.
func NewPool(n uint32) Pool { return Pool{size: int64(min(max(n, 1), 1<<31-1))} }

// Size returns the credits of the pool.
func (p *Pool) Size() int { return int(p.size) }

// Held returns the credits given out to shares above one, at most Size.
func (p *Pool) Held() int { return int(p.held) }

// Join makes s the share of a new connection: one credit.
func (p *Pool) Join(s *Share) {
	*s = Share{pool: p, limit: 1, held: 1, left: 1, spread: p.joined}
	s.rest(firstPause)
	p.members++
	p.joined = (p.joined + 1) % spreads
}

// cost returns what a share of n credits takes from the pool: one credit is free.
func cost(n int64) int64 {
	if n > 1 {
		return n
	}
	return 0
}

// count adds a share of n credits, or with -1 takes it off.
func (p *Pool) count(n, sign int64) {
	p.held += sign * cost(n)
	switch {
	case n == 2:
		p.pairs += sign
	case n > 2:
		p.larger += sign
	}
}

// Share is the part of a [Pool] that one connection has. It follows the connection's
// [Responder]:
//
//	s.Seen(calls in flight)                                    // when a call has come
//	p.SetLimit(s.Answer(asked, p.Outstanding()+p.Serving()))   // before Grant
type Share struct {
	pool  *Pool
	limit int64 // of the next grants
	held  int64 // what the peer may have: the limit, or more while a lower one takes effect

	used    int64 // most calls in flight seen in this round
	left    int64 // answers until the round ends
	widened bool  // the limit was raised for this round
	wait    int64 // answers until a full window is widened again
	pause   int64 // from which wait was set, after the latest widening in vain
	spread  int64 // 0 to spreads-1
}

// A peer with one call at a time always fills a share of one, so now and then it gets a share
// of two: after firstPause answers, and then, as long as that is in vain, after ever longer
// pauses of up to maxPause. Peers that all do the same, such as mounting, get it at different
// times, one of spreads.
const (
	firstPause = 8
	maxPause   = 255
	spreads    = 16
)

// rest keeps the share from being widened for n answers, or somewhat more.
func (s *Share) rest(n int64) { s.pause, s.wait = n, n+s.spread*n/firstPause }

// Leave gives the share back when its connection has ended. It is idempotent.
func (s *Share) Leave() {
	if s.pool == nil {
		return
	}
	s.pool.count(s.held, -1)
	s.pool.members--
	*s = Share{}
}

// Limit returns the largest grant now, at least 1.
func (s *Share) Limit() int { return int(max(s.limit, 1)) }

// Held returns the credits that the peer may have, at least Limit.
func (s *Share) Held() int { return int(max(s.held, 1)) }

// Seen says that n calls of the peer are in flight, as far as the server can see: received and
// not answered, or answered with the reply not sent yet.
func (s *Share) Seen(n int) { s.used = max(s.used, int64(n)) }

// Answer says that a call is about to be answered, and returns the largest grant, which is
// in force until the next Answer. asked is rdma_credit of the call; unanswered is how many
// calls the peer may have without an answer, this one included ([Responder.Outstanding] and
// [Responder.Serving]).
func (s *Share) Answer(asked uint32, unanswered int) uint32 {
	p := s.pool
	if p == nil {
		return 1
	}
	if p.patient--; p.patient <= 0 {
		p.owed, p.patient = 0, 0
	}
	want, before := s.limit, s.limit
	s.wait = max(s.wait-1, 0)
	s.left--
	over := s.left <= 0
	if over {
		want = s.want()
	}
	s.move(min(want, int64(clamp(asked))), int64(unanswered)-1)
	if over {
		s.used, s.left, s.widened = 0, s.limit, s.limit > before
	}
	return uint32(s.limit)
}

// want returns the limit that fits the round that ends.
func (s *Share) want() int64 {
	switch {
	case s.used >= s.limit && s.widened: // it was of use
		s.pause, s.wait = firstPause, 0
		return 2 * s.limit
	case s.used >= s.limit && s.wait == 0:
		return 2 * s.limit
	case 2*s.used > s.limit || s.used >= s.limit:
		return s.limit
	}
	if s.widened {
		s.rest(min(2*s.pause, maxPause))
	}
	return max(s.limit/2, 1)
}

// move sets the limit to want, or to what the pool has. unanswered is without the call that
// is being answered.
func (s *Share) move(want, unanswered int64) {
	p := s.pool
	p.count(s.held, -1)
	n := p.bound(s.limit, want)
	if low := min(want, p.fair(1)); n < low {
		p.owed, p.patient = max(p.owed, low-cost(n)), 2*p.size
	} else {
		p.owed -= min(max(cost(n)-cost(s.limit), 0), p.owed)
	}
	s.limit = max(n, 1)
	s.held = max(s.limit, min(unanswered, s.held))
	p.count(s.held, 1)
}

// bound returns how many of want credits a share may have that has now credits. Its own are not
// counted in p.held.
func (p *Pool) bound(now, want int64) int64 {
	room := p.size - p.held
	fair := p.fair(1)
	if p.owed > 0 {
		fair = p.fair(2)
	}
	if want <= fair {
		return min(want, room)
	}
	// Beyond the fair share, nothing that is owed to others, and half of what is left.
	left := room - p.owed
	if want > now {
		left = min(left, now+max(left-now, 0)/2)
	}
	return min(max(fair, min(want, left)), room)
}

// fair returns an equal part of the pool, at least 1, if the larger shares and more others divide it.
func (p *Pool) fair(more int64) int64 { return max((p.size-2*p.pairs)/(p.larger+more), 1) }
