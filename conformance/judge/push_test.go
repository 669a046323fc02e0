package judge_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// oneLog keeps one log in a crash model.
type oneLog struct {
	mem  region.Memory
	from push.Origin
}

func (o *oneLog) Create(_ string, size int, from push.Origin, format func(region.Memory) error) error {
	o.mem, o.from = pmemtest.NewSim(size, nil), from
	return format(o.mem)
}

func (o *oneLog) Open(string) (region.Memory, push.Origin, error) {
	if o.mem == nil {
		return nil, o.from, fs.ErrNotExist
	}
	return o.mem, o.from, nil
}
func (o *oneLog) Tidy() (int, error) { return 0, nil }

func (o *oneLog) Names() ([]string, error) { return nil, nil }

// session opens a session on a new log of a server, all recorded.
func session(t *testing.T, to relay, best push.Rung) *push.Session {
	t.Helper()
	commits, calls := listen(t), listen(t)
	ps := &push.Server{Store: &oneLog{}, Limits: push.Limits{Capacity: 16384}}
	ps.Addr = to(commits.Addr().String())
	ts := &transport.Server{Handler: ps}
	running(t, func() { check(t, ts.Close()); check(t, ps.Close(background)) },
		func() { _ = ps.Serve(commits) }, func() { _ = ts.Serve(calls) })
	c, err := transport.Dial(t.Context(), "tcp", to(calls.Addr().String()), nil)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := push.Dial(t.Context(), c, "journal", &push.Config{Best: best, Secret: push.NewSecret()})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close(background)) })
	return s
}

// appended appends n records, some in one group, on the rung that it has to be.
func appended(t *testing.T, s *push.Session, r push.Rung, n int) {
	t.Helper()
	if s.Rung() != r {
		t.Fatalf("rung %v, want %v", s.Rung(), r)
	}
	var group []*commitlog.Pending
	for i := range n {
		e, err := s.Begin(make([]byte, 100*i))
		check(t, err)
		if group = append(group, e); i%3 > 0 {
			continue
		}
		for _, e := range group {
			_, err := e.Wait(t.Context())
			check(t, err)
		}
		group = nil
	}
}

var pushOpen, pushClose, pushAppend = fmt.Sprintf("%d.1", push.Program), fmt.Sprintf("%d.2", push.Program), fmt.Sprintf("%d.3", push.Program)

// A session on a connection of its own.
func TestNative(t *testing.T) {
	sequence(t, "push-native", map[string]int{
		pushOpen: 1, pushClose: 1, "connections": 2, decode.CommitAnswer.String(): 1, decode.CommitWrite.String(): 5, decode.CommitFlush.String(): 5, decode.CommitTail.String(): 5,
	}, func(t *testing.T, to relay) { appended(t, session(t, to, push.Native), push.Native, 13) })
}

// A session by calls.
func TestByCalls(t *testing.T) {
	sequence(t, "push-calls", map[string]int{pushOpen: 1, pushClose: 1, pushAppend: 5},
		func(t *testing.T, to relay) { appended(t, session(t, to, push.Append), push.Append, 13) })
}
