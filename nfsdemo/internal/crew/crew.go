// Package crew spreads the work on a tree of files over a bounded number of goroutines.
//
// A file waits until a goroutine is free; a directory does not: whoever finds one walks it if no goroutine
// is free. So nothing waits in a circle, and whatever a server lists, the goroutines are few.
package crew

import (
	"context"
	"sync"
	"sync/atomic"
)

// Crew is the goroutines for one tree. It is safe for concurrent use.
type Crew struct {
	files, dirs chan struct{}
	names       atomic.Int64
	most        int64
}

// New makes a Crew of up to n goroutines for files and as many for directories, and for most names.
func New(n int, most int64) *Crew {
	return &Crew{files: make(chan struct{}, n), dirs: make(chan struct{}, n), most: most}
}

// Name counts a name, and reports whether there are not too many yet.
func (c *Crew) Name() bool { return c.names.Add(1) <= c.most }

// File runs f in a goroutine, which wg counts, as soon as there is one, or returns the cause of the end of
// ctx.
func (c *Crew) File(ctx context.Context, wg *sync.WaitGroup, f func()) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case c.files <- struct{}{}:
	}
	wg.Go(func() {
		defer func() { <-c.files }()
		f()
	})
	return nil
}

// Dir runs f in a goroutine, which wg counts, or here if there is none.
func (c *Crew) Dir(wg *sync.WaitGroup, f func()) {
	select {
	case c.dirs <- struct{}{}:
		wg.Go(func() {
			defer func() { <-c.dirs }()
			f()
		})
	default:
		f()
	}
}
