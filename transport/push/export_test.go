package push

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

type (
	Key         = key
	OpenArgs    = openArgs
	OpenRes     = openRes
	Opened      = opened
	AppendArgs  = appendArgs
	ReadArgs    = readArgs
	ReleaseArgs = releaseArgs
)

// Times sets how long an attempt to open may take, and the waits between two.
func (c *Config) Times(open, least, most time.Duration) *Config {
	c.times = times{open, least, most}
	return c
}

// Times sets how long an OPEN waits for what is running, and how long an APPEND may take.
func (l Limits) Times(fence, append time.Duration) Limits {
	l.fence, l.append = fence, append
	return l
}

// Octets are those of arguments.
func Octets(a interface{ append(b []byte) []byte }) []byte { return a.append(nil) }

// Log is a log as its server sees it, so that tests of what arrives need neither calls nor secrets.
type Log struct{ l *log }

// Log returns a log, nil if there is none.
func (s *Server) Log(name string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[name]; l != nil && l.log != nil {
		return &Log{l}
	}
	return nil
}

func (l *Log) Next(ctx context.Context) (*commitlog.Record, error) { return l.l.log.Next(ctx) }
func (l *Log) TryNext() (*commitlog.Record, error)                 { return l.l.log.TryNext() }
func (l *Log) Release(seq uint64) error                            { return l.l.log.Release(seq) }

// Read returns a record by its number.
func (l *Log) Read(ctx context.Context, seq uint64) (*commitlog.Record, error) {
	recs, err := l.l.log.Read(ctx, seq, 1)
	if err != nil {
		return nil, err
	}
	return recs[0], nil
}
