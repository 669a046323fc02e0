package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %d, want %d", what, got, want)
	}
}

// post posts what p needs.
func post(p *credits.Responder) { p.Posted(p.Need()) }

func check(t *testing.T, p *credits.Responder) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
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
		{"limit 2^32-1 is capped", 1<<32 - 1, 1<<32 - 1, 2 << 20, 1 << 20},
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
