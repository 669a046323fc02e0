package push

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrNotLast: another session has begun after the one that Fence should end.
var ErrNotLast = errors.New("push: another session has begun since")

// Fence ends session id for good. Its instance can neither append to the log nor resume the
// session, and gets StatusFenced. A new instance of the owner may open the log. Acknowledged
// records stay. Fence calls over when no more records of the session can arrive, and before
// another session can begin: l.Tail() is then the end of its records.
//
// Errors: ErrNotLast means that nothing was done. With region.ErrPinned, or the error of ctx,
// operations of the session were still running when ctx ended: call Fence again until they have
// ended. Any other error means that the log is damaged or its memory has failed; then over was called.
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
	_, err = l.log.Prepare(ctx, newSessionID()) // belongs to nobody
	if errors.Is(err, region.ErrPinned) || err != nil && ctx.Err() != nil {
		return err
	}
	old.abort()
	over()
	return err
}

// void ends session id for calls, and makes the server forget its instance.
func (l *Log) void(id SessionID) (old *session, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.last != id {
		return nil, ErrNotLast
	}
	l.claim = key(newSessionID())
	old = l.session
	s.drop(old)
	return old, nil
}
