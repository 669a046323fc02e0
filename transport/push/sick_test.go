package push_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/pmemtest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// sickStore is Dir on a medium with faults.
type sickStore struct {
	push.Store
	f *pmemtest.Faults
}

func (s sickStore) Open(name string) (region.Memory, push.Origin, error) {
	mem, from, err := s.Store.Open(name)
	if err != nil {
		return nil, from, err
	}
	if err := mem.Close(); err != nil {
		return nil, from, err
	}
	mem, err = pmem.Open(pmem.File, push.LogFile(s.Store, name), &pmem.Options{Hooks: s.f.Hooks(), PersistTimeout: 500 * time.Millisecond, CloseTimeout: time.Second})
	return mem, from, err
}

// The medium of a log fails under load: the client hears that within a time, by StatusLost, on each rung; nothing is
// acknowledged from then on; and where the octets are left, a server that starts again has all that was.
func TestSickMedium(t *testing.T) {
	fail := func(op pmemtest.Op, err error) func(string, *pmemtest.Faults) error {
		return func(_ string, f *pmemtest.Faults) error { f.Fail(op, err); return nil }
	}
	for _, tt := range []struct {
		name string
		sick func(path string, f *pmemtest.Faults) error
		gone bool // the octets
	}{
		{"I/O error of a write", fail(pmemtest.Write, syscall.EIO), false},
		{"I/O error of a sync", fail(pmemtest.Datasync, syscall.EIO), false},
		{"full", fail(pmemtest.Write, syscall.ENOSPC), false},
		{"read-only", fail(pmemtest.Write, syscall.EROFS), false},
		{"hangs", func(_ string, f *pmemtest.Faults) error {
			_, release := f.Hang(pmemtest.Datasync)
			time.AfterFunc(3*time.Second, release) // the server does not end before
			return nil
		}, false},
		{"truncated", func(path string, _ *pmemtest.Faults) error { return os.Truncate(path, 20480) }, true},
		{"removed", func(path string, _ *pmemtest.Faults) error { return os.Remove(path) }, true},
	} {
		for _, best := range []push.Rung{push.Native, push.Append} {
			t.Run(fmt.Sprint(tt.name, " ", best), func(t *testing.T) {
				t.Parallel()
				dir, f := t.TempDir(), pmemtest.NewFaults()
				w := start(t, &push.Server{Store: sickStore{push.Dir(dir, pmem.File), f}, Limits: push.Limits{FenceTime: time.Second}})
				secret := push.NewSecret()
				s := w.dial("log", &push.Config{Best: best, Secret: secret})
				appended(t, s, commitlog.Persistent, 1, "one", "two")
				if err := tt.sick(push.LogFile(push.Dir(dir, pmem.File), "log"), f); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				acked, err := 2, error(nil)
				for err == nil {
					if _, err = s.Append(context.Background(), []byte("more")); err == nil {
						acked++
					}
				}
				if e, ok := errors.AsType[*push.Error](err); !ok || e.Log != "log" || !errors.Is(err, push.StatusLost) {
					t.Error(err)
				}
				if d := time.Since(began); d > 15*time.Second {
					t.Error("after", d)
				}
				if _, err := w.tryDial("log", &push.Config{Best: best, Secret: secret}); !errors.Is(err, push.StatusLost) {
					t.Error("another session:", err)
				}
				w.stop()
				again := &push.Server{Store: push.Dir(dir, pmem.File)}
				err = again.Load()
				defer again.Close(context.Background()) //nolint:errcheck // nothing runs
				if tt.gone {
					if e, ok := errors.AsType[*push.Error](err); !ok || e.Log != "log" {
						t.Error("a log that is gone:", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				l := again.Log("log")
				for seq := range acked {
					if r, err := l.TryNext(); err != nil || r == nil || r.Seq != uint64(seq+1) {
						t.Fatalf("record %d of %d: %+v %v", seq+1, acked, r, err)
					}
				}
			})
		}
	}
}

// A log that cannot be made: there is no room for it, or the medium refuses.
func TestSickStore(t *testing.T) {
	for want, cause := range map[push.Status]error{push.StatusFull: syscall.ENOSPC, push.StatusLost: syscall.EROFS} {
		w := start(t, &push.Server{Store: &poorStore{newMemStore(), &os.PathError{Op: "open", Path: "log", Err: cause}}})
		_, err := w.tryDial("log", nil)
		is(t, err, want)
	}
}
