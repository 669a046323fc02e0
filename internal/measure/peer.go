package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// StartPeer runs this program once more with args, as the other process of a measurement, which
// says by ServePeer what p, a pointer, is to be. It lives until stop, or the end of ctx; what it
// complains of goes to stderr. Errors: it does not start; it ends without a word; the end of ctx.
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

// why returns why ctx has ended, if it has, else err.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ServePeer is the end of StartPeer in that process: it says p on out, its standard output, and
// returns when in, its standard input, ends.
func ServePeer(p any, in io.Reader, out io.Writer) error {
	if err := json.NewEncoder(out).Encode(p); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
