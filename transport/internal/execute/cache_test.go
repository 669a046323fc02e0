package execute

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
func begin(c *cache, k callid.Call, now int64) (*Entry, bool) {
	e, a := c.Begin(k, sum(1), now)
	return e, a == callNew
}

func reply(n int) *SavedReply { return &SavedReply{results: []byte{byte(n)}} }

var wide = cacheLimits{Entries: 1000, PerAddr: 1000, Octets: 1 << 20, Time: 100}

// TestContent: calls with one key and another content are different calls, and each keeps its reply.
func TestContent(t *testing.T) {
	c := newCache(wide)
	k := key("a", 1)
	run := func(n int) {
		e, a := c.Begin(k, sum(n), 0)
		if a != callNew {
			t.Fatalf("content %d: %v", n, a)
		}
		c.Finish(e, reply(n), 1, 0)
	}
	for n := range maxAlike {
		run(1 + n)
	}
	for n := range maxAlike {
		if e, a := c.Begin(k, sum(1+n), 0); a != callAnswered || e.reply.results[0] != byte(1+n) {
			t.Errorf("content %d: %v", n, a)
		}
	}
	run(99)
	if _, a := c.Begin(k, sum(2), 0); a != callAnswered {
		t.Error("one too many has cost more than the oldest one its reply")
	}
	run(1) // the oldest one
	if s := c.Stats(); s.Entries != maxAlike || s.Evicted != 2 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBounds: each limit drops the oldest replies, and an address that floods drops
// its own.
func TestBounds(t *testing.T) {
	for _, x := range []struct {
		name string
		lim  cacheLimits
		size int64
		keep int // of the 10 replies of address a, after one of b
		b    bool
	}{
		{"entries", cacheLimits{Entries: 4, PerAddr: 100, Octets: 1000, Time: 1}, 10, 4, false},
		{"octets", cacheLimits{Entries: 100, PerAddr: 100, Octets: 59, Time: 1}, 10, 5, false},
		{"address", cacheLimits{Entries: 100, PerAddr: 3, Octets: 1000, Time: 1}, 10, 3, true},
		{"too large", cacheLimits{Entries: 100, PerAddr: 3, Octets: 9, Time: 1}, 10, 0, false},
		{"none", cacheLimits{Octets: 1000, Time: 1}, 10, 0, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCache(x.lim)
			run := func(k callid.Call) {
				e, first := begin(c, k, 0)
				if !first {
					t.Fatalf("%+v is not new", k)
				}
				c.Finish(e, nil, x.size, 0)
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

// TestOwners: of several users with one address, one who claims to be many costs no other his reply.
func TestOwners(t *testing.T) {
	c := newCache(cacheLimits{Entries: 100, PerAddr: 3, Octets: 1000, Time: 1})
	run := func(k callid.Call, owner, cred string) callid.Call {
		k.Client.Owner, k.Client.Cred = owner, cred
		e, first := begin(c, k, 0)
		if !first {
			t.Fatalf("%+v is not new", k)
		}
		c.Finish(e, nil, 1, 0)
		return k
	}
	victim := run(key("a", 0), "1001", "m")
	for xid := range uint32(10) {
		run(key("a", xid), "1002", string(rune('n'+xid)))
	}
	if c.calls[victim] == nil || c.Stats().Entries != 4 {
		t.Errorf("the victim's reply: %v; %+v", c.calls[victim], c.Stats())
	}
}
