package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// StartPeer runs this program once more with args, as the other process of a measurement. That
// process calls ServePeer, whose value StartPeer stores in *p. It runs until stop is called, which
// waits for its end, or until ctx ends; its standard error is stderr. Errors: it does not start, it
// ends without a value, or the cause of the end of ctx.
func StartPeer(ctx context.Context, p any, stderr io.Writer, args ...string) (stop func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, exe, args...)
	child.Stderr = stderr
	in, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, why(ctx, err)
	}
	stop = func() {
		in.Close()       //nolint:errcheck // it ends in any case
		_ = child.Wait() // its figures are in; how it ends changes nothing
	}
	if err := json.NewDecoder(out).Decode(p); err != nil {
		stop()
		return nil, why(ctx, fmt.Errorf("the other process said nothing: %w", err))
	}
	return stop, nil
}

// why returns the cause of the end of ctx if it has ended, else err.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ServePeer is the counterpart of StartPeer in the other process: it writes p as JSON to out, the
// standard output, and returns when in, the standard input, ends.
func ServePeer(p any, in io.Reader, out io.Writer) error {
	if err := json.NewEncoder(out).Encode(p); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
