package push_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// obtain asks for a log of some octets, as a client does.
func obtain(ps *push.Server, addr, name string, octets uint64) push.Status {
	return ask(ps, addr, openArgs{Name: name, Secret: push.Secret{1}, Capacity: octets}).Status
}

// One host can have an eighth of the logs. The others have theirs, and a restart gives it no more.
func TestShareOfLogs(t *testing.T) {
	dir := t.TempDir()
	for life, want := range []int{4, 0} { // an eighth of 32; it has them
		ps := &push.Server{Store: push.Dir(dir, pmem.File), Limits: push.Limits{MaxLogs: 32}}
		noErr(t, ps.Load())
		got := 0
		for i := range 10 {
			switch st := obtain(ps, "192.0.2.1:1", fmt.Sprintf("a%d.%d", life, i), 4096); st {
			case push.StatusOK:
				got++
			case push.StatusFull:
			default:
				t.Errorf("life %d: %v", life, st)
			}
		}
		if got != want {
			t.Errorf("life %d: one host has got %d logs, want %d", life, got, want)
		}
		if n := ps.Stats().Full; n != uint64(10-want) {
			t.Errorf("life %d: %d refused for want of room", life, n)
		}
		for i, addr := range []string{"192.0.2.2:1", "[::ffff:192.0.2.3]:1", "127.0.0.1:1"} {
			if st := obtain(ps, addr, fmt.Sprintf("b%d.%d", life, i), 4096); st != push.StatusOK {
				t.Errorf("life %d: %s: %v", life, addr, st)
			}
		}
		if err := ps.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// The same of the octets, of which a host may have a quarter.
func TestShareOfOctets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits push.Limits
		addr   string
		want   int
	}{
		{"a quarter", push.Limits{MaxOctets: 16 * 4096}, "192.0.2.1:1", 4},
		{"loopback", push.Limits{MaxOctets: 16 * 4096}, "127.0.0.1:1", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ps := &push.Server{Store: newMemStore(), Limits: tt.limits}
			defer ps.Close(context.Background())
			got := 0
			for i := range 10 {
				if obtain(ps, tt.addr, fmt.Sprint("a", i), 4096) == push.StatusOK {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("%d logs, want %d", got, tt.want)
			}
		})
	}
}

// poorStore has no room for logs at times.
type poorStore struct {
	*memStore
	err error
}

func (p *poorStore) Create(name string, size int, from push.Origin, format func(region.Memory) error) error {
	if p.err != nil {
		return p.err
	}
	return p.memStore.Create(name, size, from, format)
}

// A log that could not be made can be when there is room again, and takes none meanwhile.
func TestNotMade(t *testing.T) {
	store := &poorStore{memStore: newMemStore()}
	ps := &push.Server{Store: store}
	defer ps.Close(context.Background())
	open := func() push.Status {
		return ask(ps, "192.0.2.1:1", openArgs{Name: "log", Secret: push.Secret{1}}).Status
	}
	for cause, want := range map[error]push.Status{syscall.ENOSPC: push.StatusFull, syscall.EROFS: push.StatusLost} {
		store.err = &os.PathError{Op: "open", Path: "log", Err: cause}
		if st := open(); st != want {
			t.Errorf("%v: %v, want %v", cause, st, want)
		}
	}
	if n := ps.Stats().Octets; n != 0 {
		t.Errorf("opened %d octets that are not a log", n)
	}
	store.err = nil
	if st := open(); st != push.StatusOK {
		t.Error("with room again:", st)
	}
	if n := ps.Stats().Octets; n != 1<<20 {
		t.Errorf("%d octets", n)
	}
}
