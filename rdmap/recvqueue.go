package rdmap

import "github.com/stag-rdma/stag/rdmap/internal/engine"

// RecvQueue is a shared receive queue. Connections whose Config names it take the receives for
// incoming Sends and Immediates from it, first come, first served. Together they never accept more
// messages than receives were posted. A message for which there is no receive ends its own
// connection with the Terminate for "no buffer" (RFC 5041 Section 7.1).
//
// A peer that sends more than its share can use up the receives of the others. Choice:
// Config.RecvQuota bounds what one connection has taken and not posted again. RFC 5042 Appendix A
// asks for such a local limit, because the protocol has none.
//
// A RecvQueue is safe for concurrent use.
type RecvQueue struct{ q *engine.RecvQueue }

// NewRecvQueue returns a queue with n receives posted.
func NewRecvQueue(n int) *RecvQueue { return &RecvQueue{engine.NewRecvQueue(n)} }

// Post posts n more receives.
func (q *RecvQueue) Post(n int) { q.q.Post(n) }

// Posted returns how many receives are posted and not yet taken.
func (q *RecvQueue) Posted() int { return q.q.Count() }

// Arm asks for the limit event: event is called once, as soon as fewer than limit receives are
// posted, which may be at once. It runs in the goroutine that reads the connection that took the
// receive, or in that of the caller of Arm. It must not block, but may call Post and Arm. A later Arm
// replaces the event, and a limit of 0 disarms it.
func (q *RecvQueue) Arm(limit int, event func()) { q.q.Arm(limit, event) }

// shared returns the receives of q, nil if there is no q.
func (q *RecvQueue) shared() *engine.RecvQueue {
	if q == nil {
		return nil
	}
	return q.q
}
