package push_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// One host opens its log again and again, and its medium does not answer: others open theirs meanwhile.
func TestOpenPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, f := faultyStore()
		ps := &push.Server{Store: store, Limits: push.Limits{}.Times(time.Hour, 0)}
		defer ps.Close(context.Background())
		open := func(host, name string) push.Status {
			return ask(ps, host+":1", openArgs{Name: name, Secret: push.Secret{1}, Instance: key(push.NewSecret())}).Status
		}
		if st := open("192.0.2.1", "log"); st != push.StatusOK {
			t.Fatal(st)
		}
		_, release := f.Hang(pmem.OpPersist)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { open("192.0.2.1", "log") })
		}
		synctest.Wait()
		if st := open("192.0.2.2", "another"); st != push.StatusOK {
			t.Error(st)
		}
		release()
		wg.Wait()
		if st := open("192.0.2.1", "log"); st != push.StatusOK {
			t.Error("afterwards:", st)
		}
	})
}

// One host waits for records in as many logs as it has: others read theirs meanwhile.
func TestReadPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := &push.Server{Store: newMemStore()}
		defer ps.Close(context.Background())
		read := func(host, name string, ms uint32) push.Status {
			a := readArgs{Name: name, Secret: push.Secret{1}, From: 1, Octets: 1000, Milliseconds: ms}
			return push.Status(called(t.Context(), ps, host+":1", push.Program, procRead, push.Octets(&a)).Uint32())
		}
		var wg sync.WaitGroup
		for i := range 20 {
			name := fmt.Sprint("log", i)
			ask(ps, "192.0.2.1:1", openArgs{Name: name, Secret: push.Secret{1}, Instance: key{1}})
			for range 8 {
				wg.Go(func() { read("192.0.2.1", name, 5000) })
			}
		}
		ask(ps, "192.0.2.2:1", openArgs{Name: "another", Secret: push.Secret{1}, Instance: key{1}})
		synctest.Wait()
		for _, ms := range []uint32{0, 1000} {
			if st := read("192.0.2.2", "another", ms); st != push.StatusOK {
				t.Error(ms, st)
			}
		}
		wg.Wait()
		if st := read("192.0.2.1", "log0", 0); st != push.StatusOK {
			t.Error("afterwards:", st)
		}
	})
}
