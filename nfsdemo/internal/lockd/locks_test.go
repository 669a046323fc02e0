package lockd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
)

// octets is how long the files of the model are; the last one stands for all that follow.
const locksOctets = 12

// cell says who holds an octet, and how.
type cell map[backend.LockOwner]bool // exclusive

// model is the naive oracle: each octet of each file knows who holds it.
type model struct {
	files map[string]*[locksOctets]cell
	waits []*wish
}

type wish struct {
	file string
	lock backend.Lock
	w    *lockd.Wait
}

func last(l *backend.Lock) int { return int(min(l.End, locksOctets-1)) }

func (m *model) cells(file string) *[locksOctets]cell {
	f := m.files[file]
	if f == nil {
		f = new([locksOctets]cell)
		for i := range f {
			f[i] = cell{}
		}
		m.files[file] = f
	}
	return f
}

func (m *model) free(file string, l *backend.Lock) bool {
	f := m.cells(file)
	for i := int(l.Start); i <= last(l); i++ {
		for who, exclusive := range f[i] {
			if who != l.Owner && (exclusive || l.Exclusive) {
				return false
			}
		}
	}
	return true
}

func (m *model) set(file string, l *backend.Lock, hold bool) {
	f := m.cells(file)
	for i := int(l.Start); i <= last(l); i++ {
		if delete(f[i], l.Owner); hold {
			f[i][l.Owner] = l.Exclusive
		}
	}
}

// grant gives what can be given, as the table says it does, and returns whom.
func (m *model) grant() {
	for again := true; again; {
		again = false
		for _, x := range slices.Clone(m.waits) {
			if m.free(x.file, &x.lock) {
				m.set(x.file, &x.lock, true)
				m.waits = slices.DeleteFunc(m.waits, func(y *wish) bool { return x == y })
				again = true
			}
		}
	}
}

func (m *model) release(client string) {
	m.waits = slices.DeleteFunc(m.waits, func(x *wish) bool { return x.lock.Owner.Client == client })
	for _, f := range m.files {
		for i := range f {
			for who := range f[i] {
				if who.Client == client {
					delete(f[i], who)
				}
			}
		}
	}
}

// TestModel compares the table with the oracle, step by step.
func TestModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		tab := lockd.NewTable(lockd.Limits{})
		m := &model{files: make(map[string]*[locksOctets]cell)}
		for step := range 300 {
			file := fmt.Sprint("f", r.IntN(2))
			l := backend.Lock{
				Owner:     backend.LockOwner{Client: fmt.Sprint("c", r.IntN(3)), ID: r.Uint64N(2)},
				Exclusive: r.IntN(2) == 0, Start: r.Uint64N(locksOctets),
			}
			if l.End = l.Start + r.Uint64N(locksOctets-l.Start); l.End == locksOctets-1 {
				l.End = backend.LockEnd
			}
			at := fmt.Sprintf("seed %d, step %d", seed, step)
			free := m.free(file, &l)
			if held := tab.Test(file, &l); (held == nil) != free {
				t.Fatalf("%s: Test %+v: %+v, but free is %v", at, l, held, free)
			} else if held != nil && !held.Conflicts(&l) {
				t.Fatalf("%s: %+v is no obstacle to %+v", at, held, l)
			}
			before := slices.Clone(m.waits)
			switch k := r.IntN(10); {
			case k < 5:
				err := tab.Set(file, &l)
				if _, locked := errors.AsType[*backend.LockedError](err); locked == free {
					t.Fatalf("%s: Set: %v, free is %v", at, err, free)
				}
				if free {
					m.set(file, &l, true)
					m.grant()
					break
				}
				if w, err := tab.Wait(file, &l); err == nil {
					m.waits = append(m.waits, &wish{file, l, w})
				} else if !errors.Is(err, backend.ErrNoLocks) {
					t.Fatal(err)
				}
			case k < 8:
				noErr(t, tab.Unlock(file, &l))
				m.set(file, &l, false)
				m.grant()
			case k < 9 && len(m.waits) > 0:
				i := r.IntN(len(m.waits))
				if !tab.Cancel(m.waits[i].w, context.Canceled) {
					t.Fatalf("%s: Cancel found nothing", at)
				}
				m.waits = slices.Delete(m.waits, i, i+1)
			case step%20 == 0:
				tab.Release(l.Owner.Client)
				m.release(l.Owner.Client)
				m.grant()
			}
			for _, x := range before {
				select {
				case <-x.w.Over:
					if slices.Contains(m.waits, x) {
						t.Fatalf("%s: %+v is over", at, x.lock)
					}
				default:
					if !slices.Contains(m.waits, x) {
						t.Fatalf("%s: %+v is not over", at, x.lock)
					}
				}
			}
			if _, waits := tab.Len(); waits != len(m.waits) {
				t.Fatalf("%s: %d waits, want %d", at, waits, len(m.waits))
			}
		}
		for i := range 3 {
			tab.Release(fmt.Sprint("c", i))
		}
		if held, waits := tab.Len(); held != 0 || waits != 0 {
			t.Fatalf("seed %d: %d locks and %d waits are left", seed, held, waits)
		}
	}
}

func locksLock(client string, start, end uint64) *backend.Lock {
	return &backend.Lock{Owner: backend.LockOwner{Client: client}, Exclusive: true, Start: start, End: end}
}

// TestLimits: no client takes more than its part, not by splitting ranges either.
func TestLocksLimits(t *testing.T) {
	tab := lockd.NewTable(lockd.Limits{ClientLocks: 3, ClientWaits: 1, FileLocks: 5, Locks: 10})
	set := tab.Set
	for i := range uint64(3) {
		noErr(t, set("f", locksLock("a", 10*i, 10*i+5)))
	}
	if err := set("f", locksLock("a", 100, 101)); !errors.Is(err, backend.ErrNoLocks) {
		t.Errorf("a fourth lock: %v", err)
	}
	if err := set("f", locksLock("a", 6, 9)); err != nil {
		t.Errorf("a lock that joins two: %v", err)
	}
	if err := set("f", locksLock("a", 100, 101)); err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := tab.Unlock("f", locksLock("a", 3, 4)); !errors.Is(err, backend.ErrNoLocks) {
		t.Errorf("an unlock that splits: %v", err)
	}
	if tab.Test("f", locksLock("b", 3, 4)) == nil {
		t.Error("it unlocked all the same")
	}
	for i := range uint64(2) {
		noErr(t, set("f", locksLock("b", 200+2*i, 200+2*i)))
	}
	if err := set("f", locksLock("b", 300, 300)); !errors.Is(err, backend.ErrNoLocks) {
		t.Errorf("a sixth lock of the file: %v", err)
	}
	if err := set("g", locksLock("b", 0, 0)); !errors.Is(err, backend.ErrNoLocks) {
		t.Errorf("a third lock, of the second half: %v", err)
	}
	for i := range 6 {
		if err := set("g", locksLock(fmt.Sprint("c", i), uint64(i), uint64(i))); (err != nil) != (i == 5) {
			t.Errorf("lock %d: %v", 6+i, err)
		}
	}
	must(tab.Wait("f", locksLock("b", 0, 0)))(t)
	if _, err := tab.Wait("f", locksLock("b", 1, 1)); !errors.Is(err, backend.ErrNoLocks) {
		t.Errorf("a second wait: %v", err)
	}
}

// TestSuite runs the suite of all Lockers.
func TestSuite(t *testing.T) {
	k := lockd.NewLocker(lockd.Limits{})
	backendtest.RunLocker(t, k, []byte("f"), []byte("g"))
	if held, waits := k.Len(); held != 0 || waits != 0 {
		t.Errorf("%d locks and %d waits are left", held, waits)
	}
}

// TestLocker: a wait ends with the lock, with its context, and with its client.
func TestLocker(t *testing.T) {
	ctx, k := t.Context(), lockd.NewLocker(lockd.Limits{})
	h := []byte("f")
	noErr(t, k.SetLock(ctx, h, locksLock("a", 0, 9), true))
	waitFor := func(n int) {
		t.Helper()
		for {
			if _, waits := k.Len(); waits == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	begin := func(ctx context.Context, client string) chan error {
		ch := make(chan error, 1)
		go func() { ch <- k.SetLock(ctx, h, locksLock(client, 5, 5), true) }()
		waitFor(1)
		return ch
	}
	short, cancel := context.WithCancel(ctx)
	ended := begin(short, "b")
	if cancel(); !errors.Is(<-ended, context.Canceled) {
		t.Error("a cancelled wait did not end so")
	}
	waitFor(0)
	ended = begin(ctx, "b")
	if err := k.ReleaseLocks(ctx, "b"); err != nil || !errors.Is(<-ended, backend.ErrNoLocks) {
		t.Error("the wait of a client that is gone did not end so")
	}
	ended = begin(ctx, "b")
	noErr(t, k.Unlock(ctx, h, locksLock("a", 0, 4)))
	waitFor(1)
	noErr(t, k.Unlock(ctx, h, locksLock("a", 5, 5)))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var locked *backend.LockedError
	if err := k.TestLock(ctx, h, locksLock("c", 0, backend.LockEnd)); !errors.As(err, &locked) {
		t.Errorf("TestLock: %v", err)
	}
}

// TestMemory: a table takes no more than it may, and when many clients have taken what they can, there is a lock, and a
// wait, for one more.
func TestMemory(t *testing.T) {
	for _, files := range []int{1 << 20, 50} {
		const memory = 8 << 20
		tab := lockd.NewTable(lockd.LimitsOf(memory))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // what the tests before have left is gone only after the second
		runtime.ReadMemStats(&before)
		for c := range 200 {
			name := fmt.Sprint("client", c)
			for i := range 5000 {
				file := fmt.Sprintf("%064d", (c*5000+i)%files)
				l := locksLock(name, uint64(10*(c*5000+i)), uint64(10*(c*5000+i)))
				if err := tab.Set(file, l); err != nil {
					break
				}
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		held, _ := tab.Len()
		took := int(after.HeapAlloc) - int(before.HeapAlloc)
		t.Logf("%d locks, %d octets, %d each", held, took, took/held)
		if took > memory {
			t.Errorf("%d locks take %d octets", held, took)
		}
		if err := tab.Set("f", locksLock("one more", 0, 0)); err != nil {
			t.Error(err)
		}
		if _, err := tab.Wait("f", locksLock("another", 0, 0)); err != nil {
			t.Error(err)
		}
	}
}

// TestReleaseLooksAtOwn: who starts again and again, and holds little, does not have all files looked through. The fastest of
// many is no matter of what else the machine does.
func TestReleaseLooksAtOwn(t *testing.T) {
	tab := lockd.NewTable(lockd.Limits{ClientLocks: 1 << 16, Locks: 1 << 17})
	for i := range 1 << 16 {
		noErr(t, tab.Set(fmt.Sprint(i), locksLock("many", 0, 0)))
	}
	fastest := func(end func()) time.Duration {
		least := time.Hour
		for range 200 {
			noErr(t, tab.Set("f", locksLock("few", 0, 0)))
			begun := time.Now()
			end()
			least = min(least, time.Since(begun))
		}
		return least
	}
	unlock := fastest(func() { noErr(t, tab.Unlock("f", locksLock("few", 0, 0))) })
	if release := fastest(func() { tab.Release("few") }); release > 50*(unlock+time.Microsecond) {
		t.Errorf("a release takes %v, an unlock %v", release, unlock)
	}
	if locks, _ := tab.Len(); locks != 1<<16 {
		t.Errorf("%d locks", locks)
	}
}
