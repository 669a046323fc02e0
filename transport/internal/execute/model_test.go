package execute

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
)

// call is a call in the model.
type call struct {
	key   callid.Call
	sum   callid.Sum
	e     *Entry
	reply *SavedReply
	size  int64
	until int64
}

// cacheModel is a cache that is searched from end to end.
type cacheModel struct {
	lim     cacheLimits
	running []*call
	done    []*call // the one that has ended first comes first
	nth     map[*call]int
	evicted uint64
}

// with returns the calls with a key, in the order in which they began.
func (m *cacheModel) with(k callid.Call) (all []*call) {
	for _, c := range slices.Concat(m.done, m.running) {
		if c.key == k {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *call) int { return m.nth[a] - m.nth[b] })
	return all
}

func (m *cacheModel) drop(c *call) {
	m.done = slices.DeleteFunc(m.done, func(d *call) bool { return d == c })
}

func (m *cacheModel) expire(now int64) {
	m.done = slices.DeleteFunc(m.done, func(c *call) bool { return c.until <= now })
}

// begin says what Begin has to answer, and with which call.
func (m *cacheModel) begin(k callid.Call, sum callid.Sum, now int64) (*call, verdict) {
	m.expire(now)
	all := m.with(k)
	if len(all) > 0 && !sum.Known {
		return nil, callUnread
	}
	var replies []*call
	unsure := false
	for _, c := range all {
		done := slices.Contains(m.done, c)
		switch {
		case done && c.sum == sum:
			return c, callAnswered
		case !done && (c.sum == sum || !c.sum.Known):
			return c, callRuns
		case done:
			replies = append(replies, c)
			unsure = unsure || !c.sum.Known
		}
	}
	if unsure {
		return nil, callUnsure
	}
	if len(replies) >= maxAlike {
		m.drop(replies[0])
		m.evicted++
	}
	c := &call{key: k, sum: sum}
	m.nth[c] = len(m.nth)
	m.running = append(m.running, c)
	return c, callNew
}

func (m *cacheModel) stop(c *call) {
	m.running = slices.DeleteFunc(m.running, func(r *call) bool { return r == c })
}

// finish drops replies, the oldest first: of the client with the most of them if its address has too many.
func (m *cacheModel) finish(c *call, now int64) {
	m.expire(now)
	m.stop(c)
	if c.size > m.lim.Octets {
		m.evicted++
		return
	}
	m.done = append(m.done, c)
	for {
		here, octets, most := 0, int64(0), 0
		of := map[callid.Client]int{}
		for _, d := range m.done {
			octets += d.size
			if d.key.Client.Addr == c.key.Client.Addr {
				here++
				of[d.key.Client]++
				most = max(most, of[d.key.Client])
			}
		}
		over := m.done[0]
		switch {
		case here > m.lim.PerAddr:
			for _, d := range slices.Backward(m.done) {
				if of[d.key.Client] == most {
					over = d
				}
			}
		case len(m.done) <= m.lim.Entries && octets <= m.lim.Octets:
			return
		}
		m.drop(over)
		m.evicted++
	}
}

func (m *cacheModel) stats() cacheStats {
	s := cacheStats{Entries: len(m.done), Running: len(m.running), Evicted: m.evicted}
	for _, c := range m.done {
		s.Octets += c.size
	}
	return s
}

// TestModel compares the cache with the model under random calls with few keys, of which many differ in their content
// only, that end in another order than they began, are forgotten, and are evicted for every reason (ADVERSARY 12, 27).
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		lim := cacheLimits{
			Entries: 1 + rnd.IntN(80), PerAddr: 1 + rnd.IntN(50), Octets: int64(50 + rnd.IntN(2500)), Time: int64(1 + rnd.IntN(800)),
		}
		c, m := newCache(lim), &cacheModel{lim: lim, nth: make(map[*call]int)}
		now := int64(0)
		for step := range 2000 {
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("seed %d, step %d: %s", seed, step, fmt.Sprintf(format, args...))
			}
			now += int64(rnd.IntN(3))
			if len(m.running) > 0 && rnd.IntN(2) == 0 {
				r := m.running[rnd.IntN(len(m.running))]
				if !r.sum.Known && rnd.IntN(3) > 0 {
					r.sum = callid.Sum{CRC: rnd.Uint32N(20), Known: true}
					r.e.sum = r.sum
				}
				if rnd.IntN(6) == 0 {
					m.stop(r)
					c.Forget(r.e)
				} else {
					r.reply, r.size, r.until = reply(step), int64(rnd.IntN(50)), now+lim.Time
					m.finish(r, now)
					c.Finish(r.e, r.reply, r.size, now)
				}
			} else {
				k := callid.Call{XID: min(rnd.Uint32N(4), rnd.Uint32N(4)), Prog: 1, Len: 4}
				k.Client.Addr = string(rune('a' + rnd.IntN(2)))
				k.Client.Cred = string(rune('m' + rnd.IntN(2)))
				sum := callid.Sum{}
				if rnd.IntN(10) > 0 {
					sum = callid.Sum{CRC: rnd.Uint32N(20), Known: true}
				}
				want, answer := m.begin(k, sum, now)
				got, a := c.Begin(k, sum, now)
				if a != answer {
					fail("%+v, %+v: answer %d, want %d", k, sum, a, answer)
				}
				switch {
				case a == callNew:
					want.e = got
				case want == nil && got != nil, want != nil && got != want.e:
					fail("%+v, %+v: another entry", k, sum)
				case a == callAnswered && (!got.done || got.reply != want.reply):
					fail("%+v, %+v: reply %p, want %p", k, sum, got.reply, want.reply)
				}
				if busy := slices.ContainsFunc(m.running, func(r *call) bool { return r.key == k }); c.Running(k) != busy {
					fail("%+v runs: %v", k, !busy)
				}
			}
			if s, want := c.Stats(), m.stats(); s != want {
				fail("%+v, want %+v", s, want)
			}
		}
	}
}
