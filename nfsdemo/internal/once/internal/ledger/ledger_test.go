package ledger

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
)

var wide = Limits{Entries: 1000, PerAddr: 1000, Time: 100, Capacity: 1 << 20, MaxReply: 256}

func key(addr string, xid uint32) Key {
	return Key{Call: callid.Call{
		Client: callid.Client{Addr: addr, Flavor: 1, Cred: "m"},
		XID:    xid, Prog: 1, Vers: 2, Proc: 3, Len: 4,
	}, Sum: 5}
}

// answer runs a call and returns the records of it.
func answer(t *testing.T, l *Ledger, k Key, result string, now int64) (intent, reply []byte) {
	t.Helper()
	e, first := l.Begin(k, now)
	if !first {
		t.Fatalf("%+v is not new", k)
	}
	intent = l.Intend(e, []byte("args"), []byte("state"), now)
	reply = l.Reply(e, []byte(result), now)
	l.Done(e, now)
	return intent, reply
}

// TestLife is one call: new, under way, done, out of time.
func TestLife(t *testing.T) {
	l := New(wide)
	e, first := l.Begin(key("a", 1), 0)
	if !first || e.Done() || e.Number() != 1 {
		t.Fatal("a new call is not new")
	}
	l.Intend(e, nil, nil, 0)
	if again, first := l.Begin(key("a", 1), 1e6); first || again != e || again.Done() {
		t.Error("a running call is not found after a long time")
	}
	l.Reply(e, []byte("x"), 50)
	if e.Done() {
		t.Error("done before the record is durable")
	}
	l.Done(e, 60)
	if again, first := l.Begin(key("a", 1), 149); first || !again.Done() || string(again.Result()) != "x" {
		t.Error("the reply is not found in its time")
	}
	if _, first := l.Begin(key("a", 1), 150); !first {
		t.Error("the reply is found when its time is over")
	}
	if s := l.Stats(); s.Expired != 1 || s.Replies != 0 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestKey: every part of the key tells calls apart: clients behind one address, and the XID
// of a client that was booted again and asks for something else (ADVERSARY 27).
func TestKey(t *testing.T) {
	base := key("a", 1)
	for i, change := range []func(*Key){
		func(k *Key) { k.Client.Addr = "b" },
		func(k *Key) { k.Client.Flavor++ },
		func(k *Key) { k.Client.Cred = "n" },
		func(k *Key) { k.XID++ },
		func(k *Key) { k.Prog++ },
		func(k *Key) { k.Vers++ },
		func(k *Key) { k.Proc++ },
		func(k *Key) { k.Len++ },
		func(k *Key) { k.Sum++ },
	} {
		l := New(wide)
		_, reply := answer(t, l, base, "x", 0)
		k := base
		change(&k)
		if _, first := l.Begin(k, 0); !first {
			t.Errorf("part %d: the reply to another call is found", i)
		}
		v := Recover()
		if err := v.Add(reply); err != nil {
			t.Fatal(err)
		}
		l, _ = v.End(wide, 0)
		if _, first := l.Begin(k, 0); !first {
			t.Errorf("part %d: the reply to another call is found after a restart", i)
		}
		if _, first := l.Begin(base, 0); first {
			t.Errorf("part %d: its own is not", i)
		}
	}
}

// TestRestart: time passes for replies only while somebody could ask for them.
func TestRestart(t *testing.T) {
	l := New(wide)
	_, first := answer(t, l, key("a", 1), "x", 1000)
	_, second := answer(t, l, key("a", 2), "y", 1060)
	v := Recover()
	for _, b := range [][]byte{first, second} {
		if err := v.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	l, _ = v.End(wide, 1e9)
	for _, x := range []struct {
		now  int64
		xid  uint32
		kept bool
	}{{1e9 + 39, 1, true}, {1e9 + 40, 1, false}, {1e9 + 99, 2, true}, {1e9 + 100, 2, false}} {
		if _, fresh := l.Begin(key("a", x.xid), x.now); fresh == x.kept {
			t.Errorf("%d at %d: kept %v", x.xid, x.now, !fresh)
		}
	}
}

// TestBounds: the oldest replies make room, and an address that floods drops its own.
func TestBounds(t *testing.T) {
	for _, x := range []struct {
		name string
		lim  Limits
		keep int // of 10 of address a, after one of b
		b    bool
	}{
		{"entries", Limits{Entries: 4, PerAddr: 100, Time: 1, Capacity: 1 << 20}, 4, false},
		{"ring", Limits{Entries: 100, PerAddr: 100, Time: 1, Capacity: 8 * 5 * 128}, 5, false},
		{"address", Limits{Entries: 100, PerAddr: 3, Time: 1, Capacity: 1 << 20}, 3, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := New(x.lim)
			answer(t, l, key("b", 0), "x", 0)
			for xid := range uint32(10) {
				answer(t, l, key("a", xid), "x", 0)
			}
			kept := 0
			for xid := range uint32(10) {
				e, first := l.Begin(key("a", xid), 0)
				if first {
					l.Drop(e)
					continue
				}
				kept++
			}
			if _, first := l.Begin(key("b", 0), 0); kept != x.keep || first == x.b {
				t.Errorf("%d of a, b is kept: %v", kept, !first)
			}
		})
	}
}

// TestSlowClient: what others behind its address do costs a client no reply as long as it has
// fewer of them, nor after a restart (ADVERSARY 27).
func TestSlowClient(t *testing.T) {
	lim := wide
	lim.PerAddr, lim.Time, lim.Capacity = 30, 1e9, 1<<24
	of := func(machine string, xid uint32) Key {
		k := key("proxy", xid)
		k.Client.Cred = machine
		return k
	}
	l, v := New(lim), Recover()
	run := func(k Key) {
		intent, reply := answer(t, l, k, "x", 0)
		if err := errors.Join(v.Add(intent), v.Add(reply)); err != nil {
			t.Fatal(err)
		}
	}
	for xid := range uint32(9) {
		run(of("slow", xid))
	}
	for xid := range uint32(1000) {
		run(of("fast", xid))
		run(of("faster", 2*xid))
		run(of("faster", 2*xid+1))
	}
	again, _ := v.End(lim, 0)
	for _, l := range []*Ledger{l, again} {
		for xid := range uint32(9) {
			if e, first := l.Begin(of("slow", xid), 0); first || !e.Done() {
				t.Errorf("reply %d is forgotten", xid)
			}
		}
		if e, first := l.Begin(of("fast", 999), 0); first || !e.Done() {
			t.Error("the last reply of the fast one is forgotten")
		}
		if s := l.Stats(); s.Replies != 30 {
			t.Errorf("%+v", s)
		}
	}
}

// TestSameKeyAgain: a call whose reply was forgotten runs again; the later one counts, also
// if records of the earlier one are behind it, or still there.
func TestSameKeyAgain(t *testing.T) {
	l := New(wide)
	k := key("a", 1)
	oldIntent, oldReply := answer(t, l, k, "old", 0)
	newIntent, newReply := answer(t, l, k, "new", 1000)
	for _, order := range [][][]byte{
		{oldIntent, oldReply, newIntent, newReply},
		{oldReply, newIntent, newReply, oldReply, newIntent},
	} {
		v := Recover()
		for _, b := range order {
			if err := v.Add(b); err != nil {
				t.Fatal(err)
			}
		}
		l, open := v.End(wide, 1000)
		if e, first := l.Begin(k, 1000); first || !e.Done() || string(e.Result()) != "new" || len(open) != 0 {
			t.Errorf("first %v, %d open", first, len(open))
		}
	}
}

// TestOddLogs: recovery takes copies of what it reads, keeps the reply to a call whatever is
// behind it, and knows the latest time wherever that stands.
func TestOddLogs(t *testing.T) {
	l := New(wide)
	k := key("a", 1)
	_, reply := answer(t, l, k, "result", 70)
	intent := (&Record{Kind: Intent, Number: 1, Key: k, At: 10}).Append(nil)
	e, _ := l.Begin(key("b", 1), 60)
	other := l.Intend(e, []byte("args"), nil, 60)
	void := (&Record{Kind: Void, Number: 1}).Append(nil)
	for name, log := range map[string][][]byte{
		"void":   {intent, reply, other, void},
		"intent": {intent, reply, intent, other},
		"twice":  {intent, intent, reply, reply, other},
	} {
		v := Recover()
		for _, b := range log {
			b = bytes.Clone(b)
			if err := v.Add(b); err != nil {
				t.Fatal(err)
			}
			clear(b)
		}
		if v.Last() != 70 {
			t.Errorf("%s: the latest time is %d", name, v.Last())
		}
		l, open := v.End(wide, 70)
		if n := l.Stats().Running; n != 1 {
			t.Errorf("%s: %d calls are under way", name, n)
		}
		// It is as old as the reply, and kept for that time.
		if e, first := l.Begin(k, 169); first || !e.Done() || string(e.Result()) != "result" {
			t.Errorf("%s: first %v", name, first)
		}
		if len(open) != 1 || string(open[0].Args) != "args" || open[0].Key != key("b", 1) {
			t.Errorf("%s: open %+v", name, open)
		}
	}
}

// TestOrderOfOpen: calls are settled in the order in which they came.
func TestOrderOfOpen(t *testing.T) {
	l, v := New(wide), Recover()
	for xid := range uint32(50) {
		e, _ := l.Begin(key("a", xid), 0)
		if err := v.Add(l.Intend(e, nil, nil, 0)); err != nil {
			t.Fatal(err)
		}
	}
	_, open := v.End(wide, 0)
	for i, u := range open {
		if u.Key.XID != uint32(i) {
			t.Fatalf("call %d is number %d", u.Key.XID, i)
		}
	}
}

// TestPass: of all records of a call the last one of its phase is written again, and no
// other; when calls have ended, by whatever way, nothing counts anymore.
func TestPass(t *testing.T) {
	l := New(wide)
	k := key("a", 1)
	oldIntent, oldReply := answer(t, l, k, "old", 0)
	intent, reply := answer(t, l, k, "new", 1000) // when the old one is forgotten
	for i, b := range [][]byte{oldIntent, oldReply, intent} {
		if _, fate := l.Pass(b, 1000); fate != Dead {
			t.Errorf("record %d: fate %d", i, fate)
		}
	}
	if again, fate := l.Pass(reply, 1000); fate != Copy || !bytes.Equal(again, reply) {
		t.Errorf("the reply: fate %d", fate)
	}
	dropped, _ := l.Begin(key("b", 1), 1000)
	l.Intend(dropped, nil, nil, 1000)
	l.Reply(dropped, []byte("not durable"), 1000)
	l.Drop(dropped)
	voided, _ := l.Begin(key("b", 2), 1000)
	l.Intend(voided, nil, nil, 1000)
	l.Void(voided)
	if e, _ := l.Begin(k, 1000); !e.Done() {
		t.Error("the reply is gone")
	} else if l.Drop(e); l.calls[k] != e {
		t.Error("dropped a call that is done")
	}
	l.expire(1e6)
	if l.space.live != 0 || l.running != 0 || len(l.calls) != 0 {
		t.Errorf("%d octets count, %d calls, %d known", l.space.live, l.running, len(l.calls))
	}
}

// TestRoom: a call waits when there is no room for its reply and those of the others.
func TestRoom(t *testing.T) {
	l := New(Limits{Entries: 100, PerAddr: 100, Time: 1, Capacity: 16 << 10, MaxReply: 1 << 10})
	var all []*Entry
	var log [][]byte
	for xid := uint32(0); ; xid++ {
		e, _ := l.Begin(key("a", xid), 0)
		b := l.Intend(e, make([]byte, 300), nil, 0)
		if b == nil {
			l.Drop(e)
			break
		}
		all, log = append(all, e), append(log, b)
	}
	if len(all) < 3 || len(all) > 6 {
		t.Errorf("%d calls in a ring of 16 KiB", len(all))
	}
	for i, e := range all {
		log = append(log, l.Void(e))
		if _, fate := l.Pass(log[i], 0); fate != Dead {
			t.Error("the intent of a call that was not executed counts")
		}
	}
	if e, _ := l.Begin(key("b", 0), 0); l.Intend(e, nil, nil, 0) == nil {
		t.Error("no room although the calls have ended")
	}
}

// TestRecords: each kind is read as it was written, and nothing else is.
func TestRecords(t *testing.T) {
	for _, r := range []Record{
		{Kind: Intent, Number: 1 << 40, Key: key("192.0.2.7", 9), At: -5, Args: []byte("abcde"), State: []byte("xyz")},
		{Kind: Reply, Number: 2, Key: key("", 0), At: 1 << 60, Result: []byte("results")},
		{Kind: Void, Number: 3},
	} {
		b := r.Append(nil)
		var got Record
		if err := got.Parse(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%v: %+v, %v", r.Kind, got, err)
		}
		for n := range b {
			if err := got.Parse(b[:n]); !errors.Is(err, ErrRecord) {
				t.Fatalf("%v cut to %d octets: %v", r.Kind, n, err)
			}
		}
		if err := got.Parse(append(bytes.Clone(b), 0, 0, 0, 0)); !errors.Is(err, ErrRecord) {
			t.Errorf("%v with octets after it: %v", r.Kind, err)
		}
	}
	var r Record
	for _, b := range [][]byte{
		make([]byte, 16),
		{0x6f, 0x6e, 0x63, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1},
		{0x6f, 0x6e, 0x63, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1},
		make([]byte, MaxRecord+1),
	} {
		if err := r.Parse(b); !errors.Is(err, ErrRecord) {
			t.Errorf("%x: %v", b[:16], err)
		}
	}
	if Intent.String()+Reply.String()+Void.String()+Kind(9).String() != "intentreplyvoidkind 9" {
		t.Error("names")
	}
}

// TestLongNames: a client that makes up an address or a name gets a record all the same.
func TestLongNames(t *testing.T) {
	l := New(wide)
	k := key(string(make([]byte, 1000)), 1)
	k.Client.Cred = string(make([]byte, 1000))
	intent, reply := answer(t, l, k, "x", 0)
	if len(intent) > MaxOverhead+100 || len(reply) > MaxOverhead+100 {
		t.Errorf("records of %d and %d octets", len(intent), len(reply))
	}
	if _, first := l.Begin(k, 0); first {
		t.Error("not recognized")
	}
}

// TestClash: a log in which two calls have one number is not one of ours.
func TestClash(t *testing.T) {
	a := Record{Kind: Reply, Number: 1, Key: key("a", 1)}
	b := Record{Kind: Reply, Number: 1, Key: key("a", 2)}
	v := Recover()
	if err := errors.Join(v.Add(a.Append(nil)), v.Add(b.Append(nil))); !errors.Is(err, ErrRecord) {
		t.Errorf("%v", err)
	}
}

// FuzzRecord: any octets are a record or are refused, a record is the one that its octets say,
// and what is allocated is bounded by them.
func FuzzRecord(f *testing.F) {
	i := Record{Kind: Intent, Number: 1, Key: key("192.0.2.7", 9), At: 5, Args: []byte("abcde"), State: []byte("xyz")}
	p := Record{Kind: Reply, Number: 1, Key: key("a", 1), Result: []byte("r")}
	v := Record{Kind: Void, Number: 1}
	f.Add(i.Append(nil), p.Append(nil))
	f.Add(p.Append(nil), i.Append(nil))
	f.Add(v.Append(nil), i.Append(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r Record
		if err := r.Parse(a); err == nil {
			var again Record
			if err := again.Parse(r.Append(nil)); err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("%x is read as %+v, and then as %+v", a, r, again) // pads may be anything
			}
		} else if !errors.Is(err, ErrRecord) {
			t.Errorf("%v", err)
		}
		rec := Recover()
		for _, x := range [][]byte{a, b, a} {
			_ = rec.Add(x)
		}
		l, open := rec.End(wide, 10)
		for _, u := range open {
			l.Void(u.Entry)
		}
		for _, x := range [][]byte{a, b, a} {
			if _, fate := l.Pass(x, 10); fate == Wait {
				t.Error("nothing is in flight")
			}
		}
		if s := l.Stats(); s.Running != 0 || s.Replies > 2 {
			t.Errorf("%+v", s)
		}
	})
}
