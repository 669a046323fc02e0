package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
)

// trips counts the round trips on the connections that pass it: how often the client speaks after the server.
type trips struct{ n atomic.Int64 }

// before returns the address of a database behind the counter.
func (r *trips) before(t *testing.T, uri string) string {
	u, err := url.Parse(uri)
	noErr(t, err)
	at := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c, at)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func (r *trips) pass(c net.Conn, at string) {
	defer c.Close()
	s, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	defer s.Close()
	var answered atomic.Bool
	answered.Store(true)
	flow := func(to, from net.Conn, note func()) {
		defer to.Close()
		for buf := make([]byte, 1<<16); ; {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			note()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go flow(c, s, func() { answered.Store(true) })
	flow(s, c, func() {
		if answered.Swap(false) {
			r.n.Add(1)
		}
	})
}

// calls are the calls that are counted and timed. Each works on what prepare has made for it.
type calls struct {
	c    *nfsclient.Client
	dir  *nfsclient.Node
	file *nfsclient.Node
	data []byte
}

func prepare(ctx context.Context, c *nfsclient.Client, name string) (*calls, error) {
	w := &calls{c: c, data: bytes.Repeat([]byte{7}, 64<<10)}
	var err error
	if w.dir, err = c.Mkdir(ctx, c.Root(), name, 0o755); err != nil {
		return nil, err
	}
	if w.file, err = c.Create(ctx, w.dir, "file", 0o644, false); err != nil {
		return nil, err
	}
	_, err = c.WriteFrom(ctx, w.file, bytes.NewReader(bytes.Repeat(w.data, 16)), 0, 1<<20, nil)
	return w, err
}

// kinds are the names of what do does.
var kinds = []string{"GETATTR", "LOOKUP", "ACCESS", "READ 64 KiB", "WRITE 64 KiB unstable", "WRITE 64 KiB FILE_SYNC", "COMMIT after WRITE", "CREATE", "RENAME", "REMOVE", "READDIRPLUS"}

func (w *calls) do(ctx context.Context, kind string, i int) error {
	var err error
	name := fmt.Sprint("n", i)
	at := int64(i%16) << 16
	switch kind {
	case "GETATTR":
		err = w.c.Refresh(ctx, w.file)
	case "LOOKUP":
		_, err = w.c.Child(ctx, w.dir, "file")
	case "ACCESS":
		_, err = w.c.Access(ctx, w.file, 0x3f)
	case "READ 64 KiB":
		_, err = w.c.ReadAt(ctx, w.file, w.data, at)
	case "WRITE 64 KiB unstable":
		_, _, err = w.c.WriteAt(ctx, w.file, w.data, at, nfs3.Unstable)
	case "WRITE 64 KiB FILE_SYNC":
		_, _, err = w.c.WriteAt(ctx, w.file, w.data, at, nfs3.FileSync)
	case "COMMIT after WRITE":
		if _, _, err = w.c.WriteAt(ctx, w.file, w.data, at, nfs3.Unstable); err == nil {
			_, err = w.c.Commit(ctx, w.file)
		}
	case "CREATE":
		_, err = w.c.Create(ctx, w.dir, name, 0o644, false)
	case "RENAME":
		err = w.c.Rename(ctx, w.dir, name, w.dir, "x"+name)
	case "REMOVE":
		err = w.c.Remove(ctx, w.dir, "x"+name)
	case "READDIRPLUS":
		_, err = w.c.ReadDir(ctx, w.dir)
	}
	return err
}

// TestCost counts how often a call waits for the database, and what it costs the server.
func TestCost(t *testing.T) {
	var r trips
	uri := r.before(t, engines.Postgres(t))
	engines.Format(t, uri, "file", t.TempDir()+"/")
	s := start(t, uri)
	w, err := prepare(t.Context(), dial(t, s), "cost")
	noErr(t, err)
	const n = 100
	for _, kind := range kinds {
		was, began, used := r.n.Load(), time.Now(), usage(t, s)
		for i := range n {
			if err := w.do(t.Context(), kind, i); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		took, cpu := time.Since(began)/n, (usage(t, s)-used)/n
		got := float64(r.n.Load()-was) / n
		t.Logf("%-24s %5.1f round trips %8v %8v of a processor", kind, got, took.Round(10*time.Microsecond), cpu.Round(10*time.Microsecond))
		if got == 0 || got > 40 {
			t.Errorf("%s: %.1f round trips", kind, got)
		}
	}
}

// usage is the processor time of a server's threads. Only schedstat counts it in nanoseconds.
func usage(t *testing.T, s *server) (sum time.Duration) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Fatal("the server has no threads: ", err)
	}
	for _, task := range tasks {
		var ns int64
		if b, err := os.ReadFile(task); errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		} else if _, err = fmt.Sscan(string(b), &ns); err != nil {
			t.Fatal(task, err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

var scale = flag.Duration("scale", 0, "how long TestScale measures each kind of call; 0: not at all")

// scaleKinds are the calls of TestScale: two that scale with servers, and two with database and disk.
var scaleKinds = []string{"GETATTR", "READ 64 KiB", "WRITE 64 KiB FILE_SYNC", "CREATE"}

// TestScale measures 1, 2 and 4 servers with 16 clients, all on this machine.
func TestScale(t *testing.T) {
	if *scale == 0 {
		t.Skip("skipped: a measurement; give -scale 3s")
	}
	uri := newVolume(t)
	var servers []*server
	t.Logf("| servers | %s |", strings.Join(scaleKinds, " | "))
	for _, n := range []int{1, 2, 4} {
		for len(servers) < n {
			servers = append(servers, start(t, uri))
		}
		row := fmt.Sprintf("| %d |", n)
		for _, kind := range scaleKinds {
			var rates []float64
			for range *rounds {
				rates = append(rates, perSecond(t, servers, kind))
			}
			slices.Sort(rates)
			row += fmt.Sprintf(" %.0f (%.0f–%.0f) |", rates[len(rates)/2], rates[0], rates[len(rates)-1])
		}
		t.Log(row)
	}
}

// clients is how many call at a time.
const clients = 16

// round counts measurements: each has names of its own.
var round atomic.Int64

// perSecond returns how many calls the clients make in a second.
func perSecond(t *testing.T, servers []*server, kind string) float64 {
	var ws []*calls
	for i := range clients {
		c, err := transport.Dial(t.Context(), "tcp", servers[i%len(servers)].addr, nil)
		noErr(t, err)
		defer c.Close()
		w, err := prepare(t.Context(), client(t, c), fmt.Sprint("r", round.Add(1)))
		noErr(t, err)
		ws = append(ws, w)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, w := range ws {
		wg.Go(func() {
			for i := 0; time.Since(began) < *scale; i++ {
				if err := w.do(t.Context(), kind, i); err != nil {
					t.Errorf("%s: %v", kind, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
