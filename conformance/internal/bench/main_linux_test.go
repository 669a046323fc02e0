// Package bench_test measures what the tables of README.md and docs/performance.md show. A row is two benchmarks
// that run one after the other: "stag", and what it is compared with. conformance/bench.sh runs them in rounds,
// and compares two revisions. All sockets are on loopback and use reno, since the default of some systems paces
// loopback.
package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var at = flag.String("at", os.TempDir(), "`directory` on the file system to measure")

// asPeer is set in the environment of the other process. It makes and removes the directory of a run, also when this
// process is interrupted.
const asPeer = "STAG_BENCH_PEER"

// peer is what the other process says: its services, and where files may be made.
type peer struct {
	PID  int
	Dir  string
	Addr map[string]string // by service
}

var stopPeer = func() {}

// other starts the other process once.
var other = sync.OnceValues(func() (*peer, error) {
	child := exec.Command(os.Args[0], "-at", *at)
	child.Env, child.Stderr = append(os.Environ(), asPeer+"=1"), os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	stopPeer = func() {
		in.Close()
		_ = child.Wait() // the figures are in
	}
	p := new(peer)
	if err := json.NewDecoder(out).Decode(p); err != nil {
		return nil, fmt.Errorf("the other process said nothing: %w", err)
	}
	return p, nil
})

func thePeer(tb testing.TB) *peer {
	p, err := other()
	check(tb, err)
	return p
}

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(asPeer) != "" {
		if err := servePeer(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	stopPeer()
	os.Exit(status)
}

func servePeer() (err error) {
	signal.Ignore(os.Interrupt) // the end of standard input ends it, and its files
	p := peer{PID: os.Getpid(), Addr: make(map[string]string)}
	if p.Dir, err = os.MkdirTemp(*at, "stag-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.Dir)) }()
	serving, err := services(p.Dir)
	if err != nil {
		return err
	}
	for name, serve := range serving {
		lc := net.ListenConfig{Control: reno}
		l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p.Addr[name] = l.Addr().String()
		go serve(l)
	}
	if err := json.NewEncoder(os.Stdout).Encode(&p); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// each accepts connections for serve, which closes them.
func each(serve func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}
}

func reno(_, _ string, rc syscall.RawConn) error {
	return rc.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // else the system's own
	})
}

func dial(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	d := net.Dialer{Control: reno, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", addr)
	check(tb, err)
	tb.Cleanup(func() { c.Close() })
	return c
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// row runs both sides of a row.
func row(b *testing.B, name, against string, theirs, ours func(*testing.B)) {
	b.Run(name, func(b *testing.B) {
		b.Run(against, theirs)
		b.Run("stag", ours)
	})
}

// among lets k goroutines make b.N calls of f together, each with its number from 0 to k-1.
func among(b *testing.B, k int, f func(i int) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	errs := make([]error, k)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range k {
		wg.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = f(i)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	check(b, errors.Join(errs...))
}

// serveEcho answers every request of as many octets as req with as many as rep.
func serveEcho(req, rep int) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		in, out := make([]byte, req), make([]byte, rep)
		for {
			if _, err := io.ReadFull(c, in); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

// exchange is the near end of serveEcho.
func exchange(service string, req, rep int) func(*testing.B) {
	return func(b *testing.B) {
		c := dial(b, thePeer(b).Addr[service])
		out, in := make([]byte, req), make([]byte, rep)
		for b.Loop() {
			_, err := c.Write(out)
			check(b, err)
			_, err = io.ReadFull(c, in)
			check(b, err)
		}
	}
}
