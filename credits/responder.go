package credits

import (
	"errors"
	"fmt"
)

// Slack is the number of receives that a [Responder] keeps posted above its limit, for peers that
// count slightly differently.
const Slack = 2

// errInvariant: more Sends may arrive than receives are posted. Only a mistake of the owner can
// cause this, such as granting before posting.
var errInvariant = errors.New("credits: outstanding above receives posted")

// Responder grants credits to one sender of calls on one connection. Make one
// with NewResponder. Not safe for concurrent use.
//
// It keeps the exact bound of what may still arrive. Let s be the calls
// received and not answered, and g the grant of a reply. A peer that sees the
// reply may fill up to g unanswered calls, so g-s more; a peer that does not
// see it yet may do what it could before. So each grant makes the bound the
// higher of the two, and each arrival lowers it by one. Lowering a grant
// therefore takes effect only as calls arrive and are answered.
type Responder struct {
	limit    uint32 // largest grant, 1 to maxCredits
	posted   int64  // receives posted and not consumed
	serving  int64  // calls received and not answered
	owed     int64  // calls the peer may still send; see above
	expected int64  // other messages the peer may still send, dones among them
	dones    int64  // RDMA_DONEs of exposed replies
}

// NewResponder returns a responder that grants at most limit credits, 1 to
// 2^20; values outside count as the nearest inside. The owner posts
// [Responder.Need] receives before the connection starts, since the peer may
// send one call at once.
func NewResponder(limit uint32) Responder { return Responder{limit: clamp(limit), owed: 1} }

// Need returns the number of receives to post now. It is the limit (or the outstanding credits,
// while a lowered limit leaves more of them), plus Slack, plus the other messages that are
// expected, less the receives that are posted.
//
// Choice: calls being served do not lower it, so a receive is posted again as
// soon as one is consumed and never waits for a handler.
func (r *Responder) Need() int {
	return int(max(max(int64(r.limit), r.owed)+Slack+r.expected-r.posted, 0))
}

// Posted says that n receives were posted, n ≥ 0. Call it afterwards.
func (r *Responder) Posted(n int) { r.posted += int64(n) }

// Received says that a call has consumed a receive. It reports false when the peer had no credit
// for it: the call is counted and may be served, but the peer has exceeded its grant (RFC 8166
// Section 3.3.1).
func (r *Responder) Received() bool {
	r.posted--
	r.serving++
	if r.owed == 0 {
		return false
	}
	r.owed--
	return true
}

// Dropped says that a message counted by Received gets no answer, as if it had not come. Post the
// receives that Need asks for first: a peer that never counted the message may send a call in its
// place. For a peer that did count it, the bound is only too loose.
func (r *Responder) Dropped() {
	if r.serving > 0 {
		r.serving--
	}
	if r.owed+r.expected < r.posted {
		r.owed++
	}
}

// Grant returns the value of rdma_credit in a reply or RDMA_ERROR to a call counted by Received,
// and counts that call as answered. Post the receives that Need asks for before, not after (RFC
// 8166 Section 3.3.1).
//
// asked is rdma_credit of the call. The grant is the lowest of the limit, asked, and what the
// posted receives allow, less the number that [Responder.Expose] has counted, and never 0.
func (r *Responder) Grant(asked uint32) uint32 {
	if r.serving > 0 {
		r.serving--
	}
	g := r.lessDones(int64(min(r.limit, max(asked, 1))))
	g = max(min(g, r.posted-r.expected+r.serving), 1)
	r.owed = max(r.owed, g-r.serving)
	return uint32(g)
}

// SetLimit changes the largest grant, within the bounds of NewResponder. Raising it
// needs more receives before it shows in grants; lowering it takes effect as calls are
// answered.
func (r *Responder) SetLimit(n uint32) { r.limit = clamp(n) }

// Expect says that n more messages that are not calls may come, n ≥ 0: replies to our own calls,
// or RDMA_DONEs. Post the receives that Need asks for before you send the message that causes
// them.
func (r *Responder) Expect(n int) { r.expected += int64(n) }

// ReceivedOther says that a message counted by Expect has consumed a receive. It reports false if
// none was expected: then the peer had no right to send it.
func (r *Responder) ReceivedOther() bool {
	r.posted--
	if r.expected == 0 {
		return false
	}
	r.expected--
	return true
}

// Unexpect says that n of the expected messages will not come, n ≥ 0: for example a reply that
// timed out while its connection is alive.
func (r *Responder) Unexpect(n int) { r.expected = max(r.expected-int64(n), 0) }

// Serving returns the number of calls received and not answered.
func (r *Responder) Serving() int { return int(r.serving) }

// Outstanding returns how many calls the peer may still send without another
// reply: the credits outstanding.
func (r *Responder) Outstanding() int { return int(r.owed) }

// Receives returns the number of receives posted and not consumed.
func (r *Responder) Receives() int { return int(r.posted) }

// Check returns nil, or an error that when more messages
// may arrive than receives are posted.
func (r *Responder) Check() error {
	if r.owed+r.expected <= r.posted {
		return nil
	}
	return fmt.Errorf("%w: %d calls and %d others may arrive, %d receives", errInvariant, r.owed, r.expected, r.posted)
}

// GrantUnheard is Grant for an answer whose credits the peer may ignore: an RDMA_ERROR on
// a connection with both directions, when "the receiver MUST ignore the header's credit
// value" because nothing tells whose it is (RFC 8167 Section 4.2). A peer that does so
// keeps its window, and may send another call for the one that was answered.
//
// The bound stays exact: it is what it was before that call came, for which receives were posted
// then and, by Need, are posted now. It never exceeds them: a peer that had no credit for the
// call does not get one for the answer.
func (r *Responder) GrantUnheard(asked uint32) uint32 {
	served := r.serving > 0
	before := r.owed
	g := r.Grant(asked)
	if served {
		r.owed = max(r.owed, min(before+1, r.posted-r.expected))
	}
	return g
}
