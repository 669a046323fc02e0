package push_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// childDir names the logs of a server that is a process of its own.
const childDir = "STAG_PUSH_CHILD"

// runChild is such a server. It prints its address, and ends with its standard input.
func runChild(dir string) {
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	commits, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ps := &push.Server{Store: push.Dir(dir, pmem.File), Addr: commits.Addr().String(), Limits: push.Limits{Capacity: 4096}}
	if err := ps.Load(); err != nil {
		panic(err)
	}
	go func() { _ = ps.Serve(commits) }()
	go func() { _ = (&transport.Server{Handler: ps}).Serve(calls) }()
	fmt.Println(calls.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startChild starts a server in a process of its own.
func startChild(t *testing.T) (p *os.Process, rpc string) {
	t.Helper()
	p, out := run(t, childDir+"="+t.TempDir())
	line := must(out.ReadString('\n'))(t)
	return p, line[:len(line)-1]
}

// run runs the test's program as a child.
func run(t *testing.T, env string) (*os.Process, *bufio.Reader) {
	t.Helper()
	exe := must(os.Executable())(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	noErr(t, errors.Join(err1, err2, cmd.Start()))
	t.Cleanup(func() {
		_ = resume(cmd.Process)
		_ = in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process, bufio.NewReader(out)
}

// A server that is stopped, whose connections stay open: reads and appends end within the silence, on each rung, also those
// that wait for room; and the session goes on when the server does.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprint(best, " full ", full), func(t *testing.T) {
				t.Parallel()
				const silence = 2 * time.Second
				p, rpc := startChild(t)
				s, err := push.Dial(t.Context(), redialer(t, func() string { return rpc }), "log", (&push.Config{
					Best: best, Secret: push.NewSecret(), Producer: &commitlog.ProducerOptions{Silence: silence},
				}).Times(time.Second, time.Millisecond, 10*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close(context.Background()) //nolint:errcheck // the server ends too
				appended(t, s, commitlog.Persistent, 1, "one")
				for full && err == nil {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err = s.Append(ctx, make([]byte, 1000))
					cancel()
				}
				place := s.Place()
				if err := stop(p); err != nil {
					t.Skip(err)
				}
				ended := make(chan error)
				for range 3 {
					go func() {
						_, err := s.Append(context.Background(), make([]byte, 1000))
						ended <- err
					}()
				}
				go func() {
					_, err := s.Reader(0).TryNext(context.Background())
					ended <- err
				}()
				for range 4 {
					select {
					case err := <-ended:
						if !errors.Is(err, commitlog.ErrSilent) {
							t.Error(err)
						}
					case <-time.After(10 * silence):
						t.Fatal("an append to a stopped server, or a read, does not end")
					}
				}
				noErr(t, resume(p))
				if full {
					return // nobody releases records
				}
				ctx := failAfter(t)
				for {
					r, err := s.Append(ctx, []byte("two"))
					switch {
					case err == nil && (r.Seq <= place.Acked || r.Seq > place.Acked+8):
						t.Errorf("%+v after %+v", r, place)
					case err != nil && errors.Is(err, commitlog.ErrSilent):
						continue
					case err != nil:
						t.Error(err)
					}
					break
				}
			})
		}
	}
}
