package commitlog

import (
	"runtime"
	"sync"
	"testing"
)

// held is a session whose answers come when the test says so.
type held struct {
	mu     sync.Mutex
	posted []*flight
}

func (h *held) post(f *flight) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posted = append(h.posted, f)
	return nil
}
func (h *held) blocked() {}
func (h *held) probe()   {}
func (h *held) silent()  {}

// groups returns what has been posted, and forgets it.
func (h *held) groups() []*flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	fs := h.posted
	h.posted = nil
	return fs
}

// queued returns how many appends have not been posted.
func (p *Producer) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.m.queue)
}

// Of two who append again and again the second posts the group of both: the first has let
// it in, and may have to wait for a processor.
func TestLastPosts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := NewProducer(nil)
	t.Cleanup(p.Close)
	h := new(held)
	if err := p.open(h, &Answer{Capacity: 1 << 20, Mode: WAL, Hash: CRC32C, NextSeq: 1, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	begin := func() {
		if _, err := p.Begin(make([]byte, 64)); err != nil {
			t.Error(err)
		}
	}
	atOnce := 0
	for range 20 { // the scheduler may let the first continue at once, sometimes
		p.mu.Lock()
		p.expected = 2 // as behind a group of two
		p.mu.Unlock()
		second := make(chan []*flight, 1)
		go func() {
			begin()
			second <- h.groups()
		}()
		begin()
		fs := <-second
		if len(fs) == 1 && p.queued() == 0 {
			atOnce++
		}
		for len(fs) > 0 || p.queued() > 0 {
			for _, f := range fs {
				f.Complete(nil)
			}
			runtime.Gosched()
			fs = h.groups()
		}
	}
	if atOnce == 0 {
		t.Error("the first one posts")
	}
}
