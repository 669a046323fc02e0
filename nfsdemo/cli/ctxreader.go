package cli

import (
	"context"
	"io"
)

// ctxReader is a reader whose Read ends with its context, so that an interrupt ends a command
// that waits for standard input. After the first error the abandoned Read may still write into
// its buffer, so the caller must not use that buffer or read again.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // io.Reader takes no context
	r   io.Reader
}

// Read implements io.Reader.
func (c *ctxReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := c.r.Read(p)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-c.ctx.Done():
		return 0, context.Cause(c.ctx)
	}
}
