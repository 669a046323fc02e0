package measure

import (
	"context"
	"os"
	"time"
)

// Until returns what f returns, or the cause of the end of ctx if that comes first. In that case f
// goes on in its goroutine, perhaps for ever: an append waits for its connection, also when the
// other process is gone. So the program should end soon.
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

// removeTries is how often remove tries: a round that Until no longer waits for may make a file
// meanwhile.
const removeTries = 10

// Scratch makes a directory in dir for the files of a measurement, with a name made of pattern as
// in os.MkdirTemp. remove removes it with all that is in it; the other process must have ended.
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
