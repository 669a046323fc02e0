package raftlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stag-rdma/stag/transport/commitlog"
	raftlog "github.com/stag-rdma/stag/transport/examples/raft"
)

func open(t testing.TB, path string, capacity uint64) *raftlog.Store {
	t.Helper()
	s, err := raftlog.Open(path, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the store does, and after each restart, a slice does too: entries at both ends come and go, through many laps of
// the ring.
func TestStore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "log")
	s := open(t, path, 64<<10)
	defer func() { s.Close() }()
	first, want := uint64(1), []string(nil)
	check := func() {
		t.Helper()
		lo, err1 := s.FirstIndex()
		hi, err2 := s.LastIndex()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			if lo != 0 || hi != 0 {
				t.Fatal(lo, hi)
			}
			return
		}
		if lo != first || hi != first+uint64(len(want))-1 {
			t.Fatalf("%d to %d, want %d to %d", lo, hi, first, first+uint64(len(want))-1)
		}
		for i, data := range want {
			var l raft.Log
			if err := s.GetLog(first+uint64(i), &l); err != nil || string(l.Data) != data || l.Index != first+uint64(i) || l.Term != 7 || string(l.Extensions) != "ext" {
				t.Fatalf("%+v %v, want %q", l, err, data)
			}
		}
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatal(err)
	}
	for round := range 400 {
		next := first + uint64(len(want))
		switch k := r.IntN(10); {
		case k < 6 && len(want) < 60:
			var ls []*raft.Log
			for i := range 1 + r.IntN(8) {
				data := fmt.Sprint(round, " ", strings.Repeat("x", r.IntN(300)))
				want = append(want, data)
				ls = append(ls, &raft.Log{Index: next + uint64(i), Term: 7, Data: []byte(data), Extensions: []byte("ext"), AppendedAt: time.Unix(1, 2)})
			}
			if err := s.StoreLogs(ls); err != nil {
				t.Fatal(err)
			}
		case k < 8 && len(want) > 0: // after a snapshot
			n := 1 + r.IntN(len(want))
			if err := s.DeleteRange(first, first+uint64(n)-1); err != nil {
				t.Fatal(err)
			}
			want, first = want[n:], first+uint64(n)
		case k == 8 && len(want) > 1: // another leader had other entries
			n := 1 + r.IntN(len(want)-1)
			if err := s.DeleteRange(first+uint64(n), next-1); err != nil {
				t.Fatal(err)
			}
			want = want[:n]
		default:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, path, 64<<10)
		}
		check()
	}
	if v, err := s.GetUint64([]byte("CurrentTerm")); err != nil || v != 7 {
		t.Error(v, err)
	}
	if _, err := s.Get([]byte("none")); err == nil || err.Error() != "not found" {
		t.Error(err)
	}
}

// fsm is the list of all commands.
type fsm struct {
	mu   sync.Mutex
	list []string
}

func (f *fsm) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, string(l.Data))
	return nil
}

func (f *fsm) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return snapshot(f.all()), nil }

func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	b, err := io.ReadAll(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list = nil; len(b) > 0 {
		f.list = strings.Split(string(b), "\n")
	}
	return err
}

type snapshot []string

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	_, err := sink.Write([]byte(strings.Join(s, "\n")))
	return errors.Join(err, sink.Close())
}
func (snapshot) Release() {}

// member is a member of a cluster in this process.
type member struct {
	id    raft.ServerID
	addr  raft.ServerAddress
	trans *raft.InmemTransport
	store *raftlog.Store
	fsm   *fsm
	*raft.Raft
}

func startMember(t *testing.T, dir string, n int) *member {
	t.Helper()
	m := &member{id: raft.ServerID(fmt.Sprint(n)), fsm: new(fsm), store: open(t, filepath.Join(dir, fmt.Sprint(n)), 128<<10)}
	m.addr, m.trans = raft.NewInmemTransport(raft.ServerAddress(fmt.Sprint(n)))
	snaps, err := raft.NewFileSnapshotStore(filepath.Join(dir, fmt.Sprint("snapshots", n)), 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = m.id, hclog.NewNullLogger()
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = 100, 50, 50*time.Millisecond
	if m.Raft, err = raft.NewRaft(c, m.fsm, m.store, m.store, snaps, m.trans); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(m.Shutdown().Error(), m.store.Close()); err != nil {
		t.Error(err)
	}
}

// A cluster of three applies commands over many times its rings, while members are stopped and started again, and all
// of it: each finds every command that was acknowledged, in the same order.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	ms := make([]*member, 3)
	var servers []raft.Server
	for i := range ms {
		ms[i] = startMember(t, dir, i)
		servers = append(servers, raft.Server{ID: ms[i].id, Address: ms[i].addr})
	}
	connect := func() {
		for _, a := range ms {
			for _, b := range ms {
				if a != nil && b != nil && a != b {
					a.trans.Connect(b.addr, b.trans)
				}
			}
		}
	}
	connect()
	if err := ms[0].BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		t.Fatal(err)
	}
	var acked []string
	apply := func(n int) {
		t.Helper()
		end := time.Now().Add(time.Minute)
		for range n {
			cmd := fmt.Sprint(len(acked), strings.Repeat("-", 200))
			for done := false; !done; {
				if time.Now().After(end) {
					t.Fatal("no leader")
				}
				for _, m := range ms {
					if m != nil && m.State() == raft.Leader && m.Apply([]byte(cmd), time.Second).Error() == nil {
						done = true
						break
					}
				}
				if !done {
					time.Sleep(10 * time.Millisecond)
				}
			}
			acked = append(acked, cmd)
		}
	}
	apply(200)
	for i := range ms {
		ms[i].stop(t)
		ms[i] = nil
		apply(150)
		ms[i] = startMember(t, dir, i)
		connect()
	}
	for i := range ms {
		ms[i].stop(t)
	}
	for i := range ms {
		ms[i] = startMember(t, dir, i)
	}
	connect()
	apply(50)
	for _, m := range ms {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got := m.fsm.all()
			if len(got) >= len(acked) { // a command may be there twice if its answer was lost
				at := 0
				for _, c := range got {
					if at < len(acked) && c == acked[at] {
						at++
					}
				}
				if at == len(acked) {
					break
				}
			}
			if time.Now().After(end) {
				t.Fatalf("member %s has %d commands of %d", m.id, len(got), len(acked))
			}
		}
	}
	for _, m := range ms { // only now: the last one alone would not learn what is committed
		m.stop(t)
	}
}

// Entries of 128 octets, one and 64 at a time, against the store that raft usually has.
func BenchmarkStoreLogs(b *testing.B) {
	for _, batch := range []int{1, 64} {
		run := func(name string, s raft.LogStore) {
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) {
				next := uint64(1)
				if last, _ := s.LastIndex(); last > 0 {
					next = last + 1
				}
				for b.Loop() {
					var ls []*raft.Log
					for range batch {
						ls = append(ls, &raft.Log{Index: next, Term: 1, Data: make([]byte, 128)})
						next++
					}
					if err := s.StoreLogs(ls); err != nil {
						b.Fatal(err)
					}
					if first, _ := s.FirstIndex(); next-first > 20_000 { // as after a snapshot
						if err := s.DeleteRange(first, next-10_000); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
		s := open(b, filepath.Join(b.TempDir(), "log"), 16<<20)
		run("commitlog", s)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		bolt, err := raftboltdb.NewBoltStore(filepath.Join(b.TempDir(), "bolt"))
		if err != nil {
			b.Fatal(err)
		}
		run("raft-boltdb", bolt)
		if err := bolt.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A store whose creation a crash has interrupted is made again; a file of something else is refused, and stays.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	half, other := filepath.Join(dir, "half"), filepath.Join(dir, "other")
	size := 20480 + 64<<10
	if err := errors.Join(os.WriteFile(half, make([]byte, size), 0o600), os.WriteFile(other, bytes.Repeat([]byte("x"), size), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := open(t, half, 64<<10)
	if err := errors.Join(s.SetUint64([]byte("k"), 1), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := raftlog.Open(other, 64<<10); !errors.Is(err, commitlog.ErrMagic) || !strings.Contains(err.Error(), other) {
		t.Error(err)
	}
}
