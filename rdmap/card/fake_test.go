package card

import (
	"sync"
	"time"
	"unsafe"
)

// The events of the CM.
var (
	established  = &event{kind: eventEstablished}
	disconnected = &event{kind: eventDisconnected}
	removed      = &event{kind: eventRemoval}
)

// memAt returns what a work request points to.
//
//go:noinline
func memAt(addr uint64, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n) }

// fakeCard is an endpoint, a domain and a queue pair: a card that completes what the test says.
type fakeCard struct {
	k   caps
	out chan struct{} // one token: something was posted
	bad error         // of post: after how many

	mu         sync.Mutex
	sends      []wr
	recvs      []uint64
	done       []wc
	registered int
	most       int // registrations
	rejected   bool
	stopped    bool
	destroyed  int
	poke       chan struct{}
	until      time.Time
	forgets    bool // flushed receives do not come back
	accepted   []byte
	onStart    func()
}

func newFake() *fakeCard {
	return &fakeCard{
		k:    caps{sends: 8, recvs: 64, reads: 4},
		poke: make(chan struct{}, 1), out: make(chan struct{}, 1),
	}
}

func (f *fakeCard) caps() (caps, error)                  { return f.k, nil }
func (f *fakeCard) device() any                          { return f }
func (f *fakeCard) open() (domain, error)                { return f, nil }
func (f *fakeCard) pair(domain, caps) (queuePair, error) { return f, nil }
func (f *fakeCard) close()                               {}

func (f *fakeCard) start(_ bool, private []byte, _, _ int) error {
	f.mu.Lock()
	f.accepted = private
	f.mu.Unlock()
	f.onStart()
	return nil
}

func (f *fakeCard) reject([]byte) {
	f.mu.Lock()
	f.rejected = true
	f.mu.Unlock()
}

func (f *fakeCard) register(mem []byte, _ int) (*registration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registered++
	f.most = max(f.most, f.registered)
	key := uint32(f.most)
	return &registration{lkey: key, rkey: key, base: addrOf(mem), end: func() {
		f.mu.Lock()
		f.registered--
		f.mu.Unlock()
	}}, nil
}

func (f *fakeCard) post(wrs []wr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bad != nil {
		f.sends = append(f.sends, wrs[:1]...)
		return &postError{1, f.bad}
	}
	f.sends = append(f.sends, wrs...)
	signal(f.out)
	return nil
}

func (f *fakeCard) recv(id uint64, _ slot, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recvs = append(f.recvs, id)
	return nil
}

func (f *fakeCard) poll(out []wc) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := copy(out, f.done)
	f.done = f.done[n:]
	return n, nil
}

func (f *fakeCard) arm() error { return nil }

func (f *fakeCard) rest(until time.Time) {
	f.mu.Lock()
	f.until = until
	f.mu.Unlock()
}

func (f *fakeCard) interrupt() { signal(f.poke) }

func (f *fakeCard) wait() (bool, error) {
	f.mu.Lock()
	d := time.Until(f.until)
	f.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-f.poke:
		return true, nil
	case <-t.C:
		return false, nil
	}
}

// stop flushes.
func (f *fakeCard) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, w := range f.sends {
		f.done = append(f.done, wc{id: w.id, status: statusFlushed})
	}
	f.sends = nil
	if f.forgets {
		return
	}
	for _, id := range f.recvs {
		f.done = append(f.done, wc{id: id, status: statusFlushed})
	}
	f.recvs = nil
}

func (f *fakeCard) destroy() { // of the queue pair, and then of the endpoint
	f.mu.Lock()
	f.destroyed++
	f.mu.Unlock()
}

// complete has the card complete the oldest n sends, with status.
func (f *fakeCard) complete(n int, status uint32) {
	f.mu.Lock()
	for _, w := range f.sends[:n] {
		f.done = append(f.done, wc{id: w.id, status: status})
	}
	f.sends = f.sends[n:]
	f.mu.Unlock()
	signal(f.poke)
}

// arrives has the oldest receive complete.
func (f *fakeCard) arrives(n int, status uint32) {
	f.mu.Lock()
	f.done = append(f.done, wc{id: f.recvs[0], status: status, len: uint32(n)})
	f.recvs = f.recvs[1:]
	f.mu.Unlock()
	signal(f.poke)
}

func (f *fakeCard) posted() []wr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]wr(nil), f.sends...)
}

func (f *fakeCard) live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.registered
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
