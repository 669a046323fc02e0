package measure

import (
	"context"
	"os"
	"time"
)

// Until returns what f returns, or why ctx has ended if that comes first. F is then left to
// itself, so the program should end: what a round waits for may never come when the other
// process is gone, since an append waits for its connection.
func Until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// removeTries is how often remove looks again: a round that Until has left to itself may make a
// file meanwhile.
const removeTries = 10

// Scratch makes a directory in dir for the files of a measurement. Remove takes it away with all
// that is in it; the other process must have ended.
func Scratch(dir, pattern string) (path string, remove func() error, err error) {
	path, err = os.MkdirTemp(dir, pattern)
	if err != nil {
		return "", nil, err
	}
	return path, func() (err error) {
		for range removeTries {
			if err = os.RemoveAll(path); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return err
	}, nil
}
