package once

import (
	"context"
	"slices"
	"sync"
)

// locks are locks by name. Each exists as long as somebody holds or wants it.
type locks struct {
	mu sync.Mutex
	m  map[string]*lock
}

type lock struct {
	users int
	slot  chan struct{} // holds one token while the lock is held
}

// take takes the locks of names, always in the same order, and returns a function that releases them.
// The error is that of ctx.
func (l *locks) take(ctx context.Context, names []string) (give func(), err error) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names {
		if err := l.one(ctx, name); err != nil {
			l.give(names[:i])
			return nil, err
		}
	}
	return sync.OnceFunc(func() { l.give(names) }), nil
}

func (l *locks) one(ctx context.Context, name string) error {
	l.mu.Lock()
	if l.m == nil {
		l.m = make(map[string]*lock)
	}
	k := l.m[name]
	if k == nil {
		k = &lock{slot: make(chan struct{}, 1)}
		l.m[name] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		l.leave(name, k)
		l.mu.Unlock()
		return ctx.Err()
	}
}

func (l *locks) give(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		k := l.m[name]
		<-k.slot
		l.leave(name, k)
	}
}

// leave ends one use. The caller holds l.mu.
func (l *locks) leave(name string, k *lock) {
	if k.users--; k.users == 0 {
		delete(l.m, name)
	}
}
