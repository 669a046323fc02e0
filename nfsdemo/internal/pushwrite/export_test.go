package pushwrite

import (
	"path/filepath"
	"time"
)

// What the tests need of the inside: how long records gather, and what hurries them.

const (
	LingerStep = lingerStep
	StoreName  = storeName
)

func (c *Config) SetLinger(d time.Duration) { c.linger = d }

// Hurry says that somebody waits for a log.
func (s *Server) Hurry(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name].hurry()
}

func (s *Server) IsSettled(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name].isSettled()
}

func (s *Server) Turns() int { return len(s.turns) }

// OpenAndClose is a server that ends before it has applied anything.
func OpenAndClose(dir string) error {
	s, _, err := openStore(dir)
	if err != nil {
		return err
	}
	return s.close()
}

// LeasesIn returns how many leases are stored in a directory.
func LeasesIn(dir string) (int, error) {
	l, err := readStore(filepath.Join(dir, storeName))
	if err != nil {
		return 0, err
	}
	return len(l.live), nil
}
