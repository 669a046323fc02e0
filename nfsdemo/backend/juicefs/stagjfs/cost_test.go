package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
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
	if err != nil {
		t.Fatal(err)
	}
	at := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	_, err = c.WriteFrom(ctx, w.file, bytes.NewReader(bytes.Repeat(w.data, 16)), 1<<20, nil)
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
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	for _, kind := range kinds {
		was, began, used := r.n.Load(), time.Now(), usage(t, s)
		for i := range n {
			if err := w.do(t.Context(), kind, i); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		took, cpu := time.Since(began)/n, usage(t, s).Since(used).CPU/n
		got := float64(r.n.Load()-was) / n
		t.Logf("%-24s %5.1f round trips %8v %8v of a processor", kind, got, took.Round(10*time.Microsecond), cpu.Round(10*time.Microsecond))
		if got == 0 || got > 40 {
			t.Errorf("%s: %.1f round trips", kind, got)
		}
	}
}

// usage is what a server has used.
func usage(t *testing.T, s *server) measure.Usage {
	u, err := measure.ProcessUsage(s.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var (
	scale = flag.Duration("scale", 0, "how long TestScale measures each kind of call; 0: not at all")
	plot  = flag.String("plot", "", "the chart that TestScale makes")
)

// scaleKinds are the calls of TestScale: two that scale with servers, and two with database and disk, which the chart
// has on its right.
var scaleKinds = []string{"GETATTR", "READ 64 KiB", "WRITE 64 KiB FILE_SYNC", "CREATE"}

// TestScale measures 1, 2 and 4 servers with 16 clients, all on this machine.
func TestScale(t *testing.T) {
	if *scale == 0 {
		t.Skip("skipped: a measurement; give -scale 3s")
	}
	uri := newVolume(t)
	var servers []*server
	chart := measure.Chart{Title: "thousand calls/s (64 KiB) of 16 clients, all on one machine", XName: "servers"}
	for i, kind := range scaleKinds {
		color := []string{measure.Blue, measure.Orange, measure.Green, measure.Violet}[i]
		chart.Lines = append(chart.Lines, measure.Line{Name: strings.Replace(kind, " 64 KiB", "", 1), Color: color, Right: i >= 2})
	}
	t.Logf("| servers | %s |", strings.Join(scaleKinds, " | "))
	for _, n := range []int{1, 2, 4} {
		for len(servers) < n {
			servers = append(servers, start(t, uri))
		}
		chart.X = append(chart.X, n)
		row := fmt.Sprintf("| %d |", n)
		for i, kind := range scaleKinds {
			var rates []float64
			for range *rounds {
				rates = append(rates, perSecond(t, servers, kind))
			}
			m := measure.Median(rates)
			chart.Lines[i].Y = append(chart.Lines[i].Y, m/1000)
			row += fmt.Sprintf(" %.0f (%.0f–%.0f) |", m, slices.Min(rates), slices.Max(rates))
		}
		t.Log(row)
	}
	if *plot != "" {
		if err := os.WriteFile(*plot, []byte(chart.SVG()), 0o644); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w, err := prepare(t.Context(), client(t, c), fmt.Sprint("r", round.Add(1)))
		if err != nil {
			t.Fatal(err)
		}
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
