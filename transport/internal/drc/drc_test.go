package drc

import (
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
)

func key(addr string, xid uint32) callid.Call {
	return callid.Call{Client: callid.Client{Addr: addr, Flavor: 1, Cred: "m"}, XID: xid, Prog: 1, Vers: 2, Proc: 3, Len: 4}
}

// sum is that of content number n; 0 is unknown.
func sum(n int) callid.Sum {
	if n == 0 {
		return callid.Sum{}
	}
	return callid.Sum{CRC: uint32(n - 1), Known: true}
}

// begin is Begin for a call that is new or not.
func begin[V any](c *Cache[V], k callid.Call, now int64) (*Entry[V], bool) {
	e, a := c.Begin(k, sum(1), now)
	return e, a == First
}

var wide = Limits{Entries: 1000, PerAddr: 1000, Octets: 1 << 20, Time: 100}

// TestLife is one call: new, running, done, out of time.
func TestLife(t *testing.T) {
	c := New[string](wide)
	k := key("a", 1)
	e, first := begin(c, k, 0)
	if !first || e.Done() || !c.Running(k) {
		t.Fatal("a new call is not new")
	}
	if again, first := begin(c, k, 1_000_000); first || again != e || again.Done() {
		t.Error("a running call is not found after a long time")
	}
	c.Finish(e, "reply", 10, 50)
	if again, first := begin(c, k, 149); first || !again.Done() || again.Value != "reply" || c.Running(k) {
		t.Error("the reply is not found in its time")
	}
	if _, first := begin(c, k, 150); !first {
		t.Error("the reply is found when its time is over")
	}
	if s := c.Stats(); s != (Stats{Running: 1}) {
		t.Errorf("%+v", s)
	}
}

// TestShares: each address of an IPv6 network is a client of its own, and all of them have one share.
func TestShares(t *testing.T) {
	c := New[int](Limits{Entries: 100, PerAddr: 3, Octets: 1000, Time: 1})
	for _, addr := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8:0:1::1"} {
		e, first := begin(c, key(addr, 1), 0)
		if !first {
			t.Fatalf("%s has called already", addr)
		}
		c.Finish(e, 0, 1, 0)
	}
	if st := c.Stats(); st.Entries != 4 || st.Evicted != 1 {
		t.Errorf("%+v", st)
	}
}

// TestForget: a call that was not executed is new when it is repeated.
func TestForget(t *testing.T) {
	c := New[string](wide)
	e, _ := begin(c, key("a", 1), 0)
	c.Forget(e)
	e, first := begin(c, key("a", 1), 0)
	if !first {
		t.Fatal("a forgotten call is found")
	}
	c.Finish(e, "x", 1, 0)
	c.Forget(e) // too late
	if _, first := begin(c, key("a", 1), 0); first {
		t.Error("Forget drops a reply")
	}
}

// TestContent: calls with one key and another content are different calls, and each keeps its reply.
func TestContent(t *testing.T) {
	c := New[int](wide)
	k := key("a", 1)
	run := func(n int) {
		e, a := c.Begin(k, sum(n), 0)
		if a != First {
			t.Fatalf("content %d: %v", n, a)
		}
		c.Finish(e, n, 1, 0)
	}
	for n := range maxAlike {
		run(1 + n)
	}
	for n := range maxAlike {
		if e, a := c.Begin(k, sum(1+n), 0); a != Reply || e.Value != 1+n {
			t.Errorf("content %d: %v", n, a)
		}
	}
	run(99)
	if _, a := c.Begin(k, sum(2), 0); a != Reply {
		t.Error("one too many has cost more than the oldest one its reply")
	}
	run(1) // the oldest one
	if s := c.Stats(); s.Entries != maxAlike || s.Evicted != 2 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestUnknown: while data of a call are at its client, nobody takes another call for it, nor it for
// another one.
func TestUnknown(t *testing.T) {
	c := New[int](wide)
	k := key("a", 1)
	want := func(n int, want Answer) *Entry[int] {
		t.Helper()
		e, a := c.Begin(k, sum(n), 0)
		if a != want {
			t.Errorf("content %d: %v, want %v", n, a, want)
		}
		return e
	}
	first := want(0, First)
	want(0, Read)
	if want(1, Wait) != first {
		t.Error("waits for something else")
	}
	c.Learn(first, sum(1))
	c.Finish(first, 1, 1, 0)
	want(0, Read)
	want(1, Reply)
	other := want(2, First)
	want(1, Reply)
	if want(2, Wait) != other {
		t.Error("waits for something else")
	}
	c.Forget(other)

	k = key("a", 2)
	c.Finish(want(0, First), 1, 1, 0) // what it was stays unknown
	want(0, Read)
	want(1, Unsure)
	if s := c.Stats(); s.Running != 0 || s.Entries != 2 {
		t.Errorf("%+v", s)
	}
}

// TestBounds: each limit drops the oldest replies, and an address that floods drops
// its own.
func TestBounds(t *testing.T) {
	for _, x := range []struct {
		name string
		lim  Limits
		size int64
		keep int // of the 10 replies of address a, after one of b
		b    bool
	}{
		{"entries", Limits{Entries: 4, PerAddr: 100, Octets: 1000, Time: 1}, 10, 4, false},
		{"octets", Limits{Entries: 100, PerAddr: 100, Octets: 59, Time: 1}, 10, 5, false},
		{"address", Limits{Entries: 100, PerAddr: 3, Octets: 1000, Time: 1}, 10, 3, true},
		{"too large", Limits{Entries: 100, PerAddr: 3, Octets: 9, Time: 1}, 10, 0, false},
		{"none", Limits{Octets: 1000, Time: 1}, 10, 0, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := New[int](x.lim)
			run := func(k callid.Call) {
				e, first := begin(c, k, 0)
				if !first {
					t.Fatalf("%+v is not new", k)
				}
				c.Finish(e, 0, x.size, 0)
			}
			run(key("b", 0))
			for xid := range uint32(10) {
				run(key("a", xid))
			}
			for xid := range uint32(10) {
				e := c.calls[key("a", xid)]
				if want := int(xid) >= 10-x.keep; (e != nil) != want {
					t.Errorf("reply %d kept: %v", xid, !want)
				}
			}
			if (c.calls[key("b", 0)] != nil) != x.b {
				t.Errorf("the reply to the other address is kept: %v", !x.b)
			}
			kept := x.keep
			if x.b {
				kept++
			}
			if s := c.Stats(); s.Entries != kept || s.Octets != int64(kept)*x.size || s.Evicted != uint64(11-kept) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSlowClient: what others behind its address do costs a client no reply as long as it has
// fewer of them (ADVERSARY 27).
func TestSlowClient(t *testing.T) {
	c := New[int](Limits{Entries: 1000, PerAddr: 30, Octets: 1 << 20, Time: 1e9})
	of := func(machine string, xid uint32) callid.Call {
		k := key("proxy", xid)
		k.Client.Cred = machine
		return k
	}
	run := func(k callid.Call) {
		e, first := begin(c, k, 0)
		if !first {
			t.Fatalf("%+v is not new", k)
		}
		c.Finish(e, 0, 1, 0)
	}
	for xid := range uint32(9) {
		run(of("slow", xid))
	}
	for xid := range uint32(10_000) {
		run(of("fast", xid))
		run(of("faster", 2*xid))
		run(of("faster", 2*xid+1))
	}
	for xid := range uint32(9) {
		if e, first := begin(c, of("slow", xid), 0); first || !e.Done() {
			t.Errorf("reply %d is forgotten", xid)
		}
	}
	for _, x := range []struct {
		machine string
		last    uint32
	}{{"fast", 9_999}, {"faster", 19_999}} {
		for n := range uint32(10) {
			if _, first := begin(c, of(x.machine, x.last-n), 0); first {
				t.Errorf("the last reply but %d of the %s one is forgotten", n, x.machine)
			}
		}
	}
}
