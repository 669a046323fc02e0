package push

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrNotLast: another session has begun since the one that was to be fenced.
var ErrNotLast = errors.New("push: another session has begun since")

// Fence ends session id for good, at the wish of the server: its instance can neither append
// nor resume it, and is told StatusFenced; a new instance of the owner may open the log.
// What was acknowledged stays. Over is called when nothing of the session can come any more,
// and before another one can begin: l.Tail() is the end of its records.
//
// Errors: ErrNotLast, and nothing was done; region.ErrPinned or that of ctx when something
// of the session still runs at its end: again, until it does not. With all others the log
// is damaged or its memory has failed, and over was called.
func (l *Log) Fence(ctx context.Context, id SessionID, over func()) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	old, err := l.void(id)
	if err != nil {
		return err
	}
	_, err = l.log.Prepare(ctx)
	if errors.Is(err, region.ErrPinned) || err != nil && ctx.Err() != nil {
		return err
	}
	old.abort()
	over()
	return err
}

// void ends session id for the calls, and makes its instance a stranger.
func (l *Log) void(id SessionID) (old *session, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.last != id {
		return nil, ErrNotLast
	}
	l.instance, l.begun = key(newSessionID()), nil // of nobody
	old = l.session
	s.drop(old)
	return old, nil
}
