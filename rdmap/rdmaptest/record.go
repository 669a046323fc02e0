package rdmaptest

import (
	"bytes"
	"net"
	"sync"
)

// Record wraps a connection and keeps copies of what went through it. Use it by
// pointer.
type Record struct {
	net.Conn

	mu      sync.Mutex
	in, out []byte
}

// Read implements net.Conn.
func (r *Record) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in = append(r.in, p[:n]...)
	return n, err
}

// Write implements net.Conn.
func (r *Record) Write(p []byte) (int, error) {
	n, err := r.Conn.Write(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = append(r.out, p[:n]...)
	return n, err
}

// CloseWrite implements the half-close of TCP, if the wrapped connection does.
func (r *Record) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return net.ErrClosed
}

// In returns a copy of everything read so far.
func (r *Record) In() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.in)
}

// Out returns a copy of everything written so far.
func (r *Record) Out() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.out)
}
