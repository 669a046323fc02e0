package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Keep calls try until it succeeds, or fails with an error that is final, or ctx ends; then the error is also that of
// ctx. It waits between two attempts: least, then twice as long each time, up to most; less up to half of it at
// random, so that clients do not all come back at once.
func Keep(ctx context.Context, least, most time.Duration, try func() error, final func(error) bool) error {
	for delay := least; ; delay = min(2*delay, most) {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case final(err):
			return err
		}
		select {
		case <-time.After(delay - rand.N(delay/2+1)):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Call makes a call to the program of a log, which may run twice, and reads its results with parse. missing is the error
// if the server lacks the program, and malformed wraps that of parse.
func Call(ctx context.Context, caller rpc.Caller, c *rpc.Call, missing, malformed error, parse func(*xdr.Decoder)) error {
	var reply rpc.Reply
	defer reply.Release()
	c.Repeatable = true
	if err := caller.Do(ctx, c, &reply); err != nil {
		return err
	}
	switch h := &reply.Header; {
	case !h.Denied && (h.Accept == xdr.ProgUnavail || h.Accept == xdr.ProgMismatch || h.Accept == xdr.ProcUnavail):
		return fmt.Errorf("%w: %w", missing, h.Err())
	case h.Err() != nil:
		return h.Err()
	}
	d := xdr.NewDecoder(reply.Results)
	parse(&d)
	if err := d.End(); err != nil {
		return fmt.Errorf("%w: %w", malformed, err)
	}
	return nil
}
