package rdmaptest

import (
	"math/rand/v2"
	"net"
	"sync"
)

// Fragment wraps a connection so that its octets move in odd pieces: each Read
// returns between 1 and MaxRead octets, each Write is cut into pieces of 1 to
// MaxWrite. Zero leaves that direction alone. Seed makes it repeatable. Use it by
// pointer.
type Fragment struct {
	net.Conn
	MaxRead, MaxWrite int
	Seed              uint64

	mu   sync.Mutex
	rand *rand.Rand
}

func (f *Fragment) size(limit int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand == nil {
		f.rand = rand.New(rand.NewPCG(f.Seed, 1))
	}
	return 1 + f.rand.IntN(limit)
}

// Read implements net.Conn.
func (f *Fragment) Read(p []byte) (int, error) {
	if f.MaxRead > 0 && len(p) > 0 {
		p = p[:min(len(p), f.size(f.MaxRead))]
	}
	return f.Conn.Read(p)
}

// Write implements net.Conn.
func (f *Fragment) Write(p []byte) (n int, err error) {
	if f.MaxWrite <= 0 {
		return f.Conn.Write(p)
	}
	for len(p) > 0 {
		k, err := f.Conn.Write(p[:min(len(p), f.size(f.MaxWrite))])
		n += k
		if err != nil {
			return n, err
		}
		p = p[k:]
	}
	return n, nil
}

// CloseWrite implements the half-close of TCP, if the wrapped connection does.
func (f *Fragment) CloseWrite() error {
	if c, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return net.ErrClosed
}
