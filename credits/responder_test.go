package credits_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/credits"
)

// post posts what p needs.
func post(p *credits.Responder) { p.Posted(p.Need()) }

func check(t *testing.T, p *credits.Responder) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestResponderStart(t *testing.T) {
	p := credits.NewResponder(8)
	if err := p.Check(); !errors.Is(err, credits.ErrInvariant) {
		t.Errorf("one call may come and nothing is posted: %v", err)
	}
	want(t, "Need", p.Need(), 8+credits.Slack)
	post(&p)
	check(t, &p)
	want(t, "Outstanding", p.Outstanding(), 1)
	want(t, "Need", p.Need(), 0)
	if !p.Received() || p.Received() {
		t.Error("other than one call before the first grant")
	}
	want(t, "Serving", p.Serving(), 2)
}

func TestResponderGrant(t *testing.T) {
	for _, tc := range []struct {
		name         string
		limit, asked uint32
		posted       int // besides the receive of the call itself
		want         uint32
	}{
		{"the limit", 8, 32, 10, 8},
		{"what is asked", 8, 3, 10, 3},
		{"asked 0 counts as 1", 8, 0, 10, 1},
		{"asked 2^32-1", 8, 1<<32 - 1, 10, 8},
		{"what is posted", 8, 32, 5, 5},
		{"limit 0 counts as 1", 0, 32, 10, 1},
		{"limit 2^32-1 is capped", 1<<32 - 1, 1<<32 - 1, 2 * credits.MaxCredits, credits.MaxCredits},
		{"one is always granted", 8, 8, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := credits.NewResponder(tc.limit)
			p.Posted(1 + tc.posted)
			p.Received()
			if got := p.Grant(tc.asked); got != tc.want {
				t.Errorf("Grant = %d, want %d", got, tc.want)
			}
			if tc.posted > 0 {
				check(t, &p)
			} else if p.Check() == nil {
				t.Error("one credit, no receive, and no complaint")
			}
		})
	}
}

// Calls being served hold receives of their grant: it may be above what is
// posted by as many.
func TestResponderGrantWhileServing(t *testing.T) {
	p := credits.NewResponder(4)
	post(&p)
	p.Received()
	post(&p)
	p.Grant(4)
	for range 4 {
		p.Received() // not posted again
	}
	want(t, "Receives", p.Receives(), 2)
	if g := p.Grant(4); g != 4 {
		t.Errorf("Grant = %d, want 4", g)
	}
	want(t, "Outstanding", p.Outstanding(), 1)
	check(t, &p)
}

// A lowered limit does not take back what the peer may already be sending.
func TestResponderShrinks(t *testing.T) {
	p := credits.NewResponder(8)
	post(&p)
	p.Received()
	post(&p)
	p.Grant(8)
	p.SetLimit(2)
	want(t, "Need", p.Need(), 0)
	want(t, "Outstanding", p.Outstanding(), 8)
	for range 8 {
		if !p.Received() {
			t.Fatal("a call inside the old grant was refused")
		}
		check(t, &p)
	}
	want(t, "Need once they came", p.Need(), 2) // 2 of 10 left
	post(&p)
	for range 8 {
		if g := p.Grant(8); g > 2 {
			t.Errorf("Grant = %d above the limit", g)
		}
		check(t, &p)
	}
	want(t, "Outstanding", p.Outstanding(), 2)
}

func TestResponderExpect(t *testing.T) {
	p := credits.NewResponder(2)
	post(&p)
	p.Expect(3)
	want(t, "Need", p.Need(), 3)
	post(&p)
	check(t, &p)
	for range 2 {
		if !p.ReceivedOther() {
			t.Error("an expected message was refused")
		}
		check(t, &p)
	}
	p.Unexpect(9)
	if p.ReceivedOther() {
		t.Error("an unexpected message was accepted")
	}
	want(t, "Need", p.Need(), 0)
	want(t, "Outstanding", p.Outstanding(), 1)
	p.Reset()
	want(t, "Need after Reset", p.Need(), 2+credits.Slack)
}

// Receives for other messages are not there for calls, and a lowered limit does
// not lower what they need.
func TestResponderExpectApart(t *testing.T) {
	p := credits.NewResponder(8)
	p.Posted(1 + 5)
	p.Received()
	p.Expect(3)
	if g := p.Grant(8); g != 2 {
		t.Errorf("Grant = %d with 5 receives, 3 of them for others, want 2", g)
	}
	check(t, &p)

	p = credits.NewResponder(8)
	post(&p)
	p.Received()
	post(&p)
	p.Grant(8)
	p.SetLimit(1)
	p.Expect(3)
	want(t, "Need", p.Need(), 3)
	post(&p)
	check(t, &p)
}

// A message dropped without an answer gives its credit back, as far as
// receives are posted for it.
func TestResponderDropped(t *testing.T) {
	p := credits.NewResponder(2)
	p.Posted(1)
	p.Received()
	p.Dropped()
	want(t, "Outstanding, nothing posted", p.Outstanding(), 0)
	post(&p)
	p.Received()
	post(&p)
	p.Dropped()
	want(t, "Outstanding", p.Outstanding(), 1)
	want(t, "Serving", p.Serving(), 0)
	check(t, &p)
	p.Dropped()
	want(t, "Serving", p.Serving(), 0)
}
