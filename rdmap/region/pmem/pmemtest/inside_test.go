package pmemtest

import (
	"errors"
	"strings"
	"testing"
)

// note is a script that stores nothing and says what it likes.
func note(run func(x *Trial) error, recover func([]byte) ([]Record, error)) *Script {
	return &Script{Name: "note", Size: 64, Run: run, Recover: recover}
}

// The checker notices each way to be wrong, and nothing else.
func TestCheck(t *testing.T) {
	a, b, c := Record{1, []byte("a")}, Record{2, []byte("b")}, Record{3, []byte("c")}
	for _, tt := range []struct {
		name        string
		sent, acked []Record
		applied     uint64
		gone        uint64
		recovered   []Record
		err         error
		want        string // of the message; "": no violation
	}{
		{name: "nothing"},
		{name: "all", sent: []Record{a, b}, acked: []Record{a, b}, recovered: []Record{a, b}},
		{name: "extra", sent: []Record{a, b}, acked: []Record{a}, recovered: []Record{a, b}},
		{name: "acknowledged is gone", sent: []Record{a, b}, acked: []Record{a, b}, recovered: []Record{a}, want: "acknowledged record 2 is gone"},
		{name: "all is gone", sent: []Record{a}, acked: []Record{a}, want: "acknowledged record 1 is gone"},
		{name: "applied", sent: []Record{a}, acked: []Record{a}, applied: 1},
		{name: "applied and recovered", sent: []Record{a, b}, acked: []Record{a, b}, applied: 1, recovered: []Record{a, b}},
		{name: "gap behind applied", sent: []Record{a, b, c}, applied: 1, recovered: []Record{c}, want: "record 2 is gone"},
		{name: "gap", sent: []Record{a, b, c}, recovered: []Record{a, c}, want: "found record 3 where 2 should be"},
		{name: "twice", sent: []Record{a}, recovered: []Record{a, a}, want: "found record 1 where 2 should be"},
		{name: "foreign", sent: []Record{a}, recovered: []Record{{1, []byte("x")}}, want: "never sent"},
		{name: "not sent", recovered: []Record{a}, want: "never sent"},
		{name: "another than acknowledged", sent: []Record{a, {1, []byte("x")}}, acked: []Record{a}, recovered: []Record{{1, []byte("x")}}, want: "not the one"},
		{name: "gone, and there again", sent: []Record{a, b}, gone: 2, recovered: []Record{a, b}, want: "never sent"},
		{name: "no storage yet", err: ErrNothing},
		{name: "no storage", sent: []Record{a}, acked: []Record{a}, err: ErrNothing, want: "recovery fails"},
		{name: "recovery fails", err: errors.New("oops"), want: "oops"},
	} {
		_, err := Explore(note(func(x *Trial) error {
			for _, r := range tt.sent {
				x.Sent(r.Seq, r.Payload)
			}
			for _, r := range tt.acked { // all at once: the moment is the last one
				x.acked[r.Seq] = r.Payload
			}
			x.applied, x.news = tt.applied, true
			if tt.gone > 0 {
				x.Gone(tt.gone)
			}
			x.Step()
			return nil
		}, func([]byte) ([]Record, error) { return tt.recovered, tt.err }), Budget{})
		v, is := errors.AsType[*Violation](err)
		if (tt.want != "") != is || is && (!strings.Contains(v.Error(), tt.want) || v.Script != "note" || v.Moment != 1) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// The workload's own error comes out, and no panic but ours is swallowed.
func TestRunEnds(t *testing.T) {
	oops := errors.New("oops")
	nothing := func([]byte) ([]Record, error) { return nil, nil }
	if _, err := Explore(note(func(*Trial) error { return oops }, nothing), Budget{}); !errors.Is(err, oops) {
		t.Error(err)
	}
	defer func() {
		if recover() != any(oops) {
			t.Error("the panic is gone")
		}
	}()
	_, _ = Explore(note(func(*Trial) error { panic(oops) }, nothing), Budget{})
}

// A mistake that only shows in the second crash is found.
func TestAgain(t *testing.T) {
	s := &Script{
		Name: "again", Size: 128,
		Run: func(x *Trial) error {
			x.Sent(1, []byte{1})
			if err := errors.Join(x.Mem.Store(0, []byte{1}), x.Mem.Persist(0, 1)); err != nil {
				return err
			}
			x.Acked(1, []byte{1})
			return nil
		},
		Recover: func(b []byte) ([]Record, error) {
			if b[0] == 0 || b[64] != 0 {
				return nil, nil
			}
			return []Record{{1, b[:1]}}, nil
		},
		Again: func(x *Trial) error { return x.Mem.Store(64, []byte{1}) },
	}
	if _, err := Explore(s, Budget{Again: -1}); err != nil {
		t.Fatal(err)
	}
	r, err := Explore(s, Budget{Again: 1})
	if v, ok := errors.AsType[*Violation](err); !ok || !strings.Contains(err.Error(), "after moment") || len(v.Recovered) != 0 || r.Restarts == 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// A store occurs after a flush has read the octets and before it ends: what the flush has read is durable, the store may
// be, and so may other octets of its line.
func TestStoreDuringFlush(t *testing.T) {
	s := NewSim(8, nil)
	_ = s.Store(0, []byte("aaaa"))
	now := s.now()
	read := []byte("aa") // of octets 0 and 1
	_ = s.Store(1, []byte("bb"))
	_ = s.Store(0, []byte("c"))

	copy(s.durable, read)
	vs := s.rebase(0, 0, read, now)
	want := []string{"aaaa\x00\x00\x00\x00", "abba\x00\x00\x00\x00", "cbba\x00\x00\x00\x00"}
	if len(vs) != len(want) {
		t.Fatalf("%d versions, want %d", len(vs), len(want))
	}
	for k, v := range vs {
		if string(v.octets) != want[k] {
			t.Errorf("version %d: %q, want %q", k, v.octets, want[k])
		}
	}
}

// The same if the flush covers the whole line.
func TestStoreDuringFlushOfLine(t *testing.T) {
	s := NewSim(8, nil)
	_ = s.Store(0, []byte("aaaaaaaa"))
	now := s.now()
	read := []byte("aaaaaaaa")
	_ = s.Store(0, []byte("b"))

	copy(s.durable, read)
	if vs := s.rebase(0, 0, read, now); len(vs) != 1 || string(vs[0].octets) != "baaaaaaa" {
		t.Errorf("%v", vs)
	}
	if vs := s.rebase(0, 0, read, s.now()); len(vs) != 0 {
		t.Errorf("%v", vs)
	}
}
