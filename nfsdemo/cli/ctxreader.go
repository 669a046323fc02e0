package cli

import (
	"context"
	"io"
)

// ctxReader is a reader whose Read ends with its context, so that an interrupt
// ends a command that waits for standard input. The abandoned Read beneath may
// still write into its buffer: nothing must be read after the first error.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // io.Reader has no other way
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
