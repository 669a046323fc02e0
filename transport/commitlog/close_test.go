package commitlog_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// slowMemory is a memory of which one Load waits until the memory has been given back, or long
// enough that it would have been.
type slowMemory struct {
	*pmemtest.Sim
	loading chan struct{} // closed when it does; nil: none waits
	back    chan struct{} // closed when the memory is the caller's again
	early   bool          // it was, while it was being read
}

func (m *slowMemory) Load(p []byte, off int) error {
	if m.loading != nil {
		close(m.loading)
		m.loading = nil
		select {
		case <-m.back:
			m.early = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	return m.Sim.Load(p, off)
}

// Close gives the memory back when nobody reads a record of it anymore.
func TestCloseWhileReading(t *testing.T) {
	mem := &slowMemory{Sim: sim(4096), back: make(chan struct{})}
	l := newTestLog(t, mem, commitlog.WAL)
	p := newTestProducer(t, nil)
	noErr(t, l.Local(t.Context(), p))
	must(p.Append(t.Context(), []byte("record")))(t)
	loading := make(chan struct{})
	mem.loading = loading
	read := make(chan error)
	go func() {
		_, err := l.TryNext()
		read <- err
	}()
	<-loading
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	close(mem.back)
	if err := <-read; err != nil || mem.early {
		t.Error("the memory was released while a record was being read:", err)
	}
}

// The head that a session tells is durable at every moment of a release.
func TestPreparedHead(t *testing.T) {
	var look func(*pmemtest.Sim)
	mem := pmemtest.NewSim(20480+4096, &pmemtest.SimOptions{Step: func(s *pmemtest.Sim) {
		if look != nil {
			look(s)
		}
	}})
	l := newTestLog(t, mem, commitlog.WAL)
	s := must(l.Prepare(t.Context(), commitlog.Instance{}))(t)
	p := newTestProducer(t, nil)
	noErr(t, s.Local(p))
	for range 3 {
		must(p.Append(context.Background(), []byte("record")))(t)
	}
	take(t, l, 1, "record", "record", "record")
	looked := 0
	look = func(m *pmemtest.Sim) {
		looked++
		octets := m.Told().Durable()
		info, err := commitlog.Inspect(bytes.NewReader(octets), int64(len(octets)), nil)
		if err != nil || s.Head() > info.Head {
			t.Errorf("head %d told, recovery finds %d: %v", s.Head(), info.Head, err)
		}
	}
	for seq := range uint64(3) {
		noErr(t, l.Release(seq+1))
	}
	if look = nil; looked < 6 || s.Head() != 3*64 {
		t.Errorf("%d moments, head %d", looked, s.Head())
	}
}
