package rdmaptest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"time"
)

// Event is one Read or Write that moved octets or ended a direction.
type Event struct {
	Time time.Time // when it returned
	Out  bool      // written; otherwise read
	Data []byte    // the octets moved, a copy
	Err  error     // what it returned with them: io.EOF at the end of input
}

// Record is a connection that remembers everything that passed through it. Use &Record{Conn: c}
// instead of c; like any net.Conn it is safe for concurrent use. With Wrap it matters which one is
// outside: a Record inside a Faulty records what the connection did, and a Record around a Faulty
// records what its user saw.
type Record struct {
	net.Conn

	mu     sync.Mutex
	events []Event
}

var _ net.Conn = (*Record)(nil)

// Read implements net.Conn.
func (r *Record) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.add(false, p[:n], err)
	return n, err
}

// Write implements net.Conn.
func (r *Record) Write(p []byte) (int, error) {
	n, err := r.Conn.Write(p)
	r.add(true, p[:n], err)
	return n, err
}

func (r *Record) add(out bool, p []byte, err error) {
	if len(p) == 0 && err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, Event{time.Now(), out, bytes.Clone(p), err})
}

// CloseWrite implements the half-close of TCP, if the wrapped connection does.
func (r *Record) CloseWrite() error { return closeWrite(r.Conn) }

// Events returns what has happened so far, in the order in which the calls returned. The octets are
// shared with the Record and must not be changed.
func (r *Record) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// In returns a copy of everything read so far.
func (r *Record) In() []byte { return r.stream(false) }

// Out returns a copy of everything written so far.
func (r *Record) Out() []byte { return r.stream(true) }

func (r *Record) stream(out bool) (b []byte) {
	for _, ev := range r.Events() {
		if ev.Out == out {
			b = append(b, ev.Data...)
		}
	}
	return b
}
