package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
)

// The processes that are killed are this test binary, told by the environment what to be.
const (
	childRole   = "STAG_CRASH_CHILD"  // server, client or check
	childDir    = "STAG_CRASH_DIR"    // where export, lists, port and addr are
	childClient = "STAG_CRASH_CLIENT" // number of a client
	childLife   = "STAG_CRASH_LIFE"   // how often it was started
	childKept   = "STAG_CRASH_KEPT"   // not empty: clients keep replies
	childServe  = "STAG_CRASH_SERVE"  // arguments of serve, by spaces
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	rdmaptest.Main(m)
}

// runChild is a process to be killed.
func runChild(role string) int {
	go func() { // a parent that is gone leaves nobody behind
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	dir := os.Getenv(childDir)
	var err error
	switch role {
	case "server":
		return cli.Main(append([]string{"serve"}, strings.Fields(os.Getenv(childServe))...), os.Stdin, io.Discard, os.Stderr)
	case "keeper":
		err = runKeeper(dir)
	case "client":
		c, _ := strconv.Atoi(os.Getenv(childClient))
		life, _ := strconv.Atoi(os.Getenv(childLife))
		err = runClient(dir, c, life)
	case "check": // for conformance/linux/power.sh
		var s string
		if s, err = checkDir(dir); err == nil {
			fmt.Println(s)
			return 0
		}
	default:
		err = fmt.Errorf("no role %q", role)
	}
	fmt.Fprintln(os.Stderr, role, "ends:", err)
	return 3
}

// A client has streams workers that are known by the XIDs that they choose, so that they go
// on in its next life, and lastings over RDMA.
const streams, lastings = 2, 4

// runClient runs the workers of client c in one of its lives.
func runClient(dir string, c, life int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, 1)
	for i := range streams + lastings {
		id := uint16(1000*c + i + 1)
		machine := id
		if i >= streams {
			machine = uint16(1000*c + 100 + i)
			id = machine + uint16(lastings*life)
		}
		wg.Go(func() {
			select {
			case errs <- runOne(ctx, dir, c, id, machine, i-streams):
			default:
			}
			cancel()
		})
	}
	wg.Wait()
	return <-errs
}

// runOne runs a worker of client c; lasting is its number among those over RDMA, if it is one.
func runOne(ctx context.Context, dir string, c int, id, machine uint16, lasting int) error {
	if lasting == 0 && os.Getenv(childKept) != "" {
		return runKept(ctx, dir, c)
	}
	return runWorker(ctx, dir, id, machine, lasting >= 0)
}

func runWorker(ctx context.Context, dir string, id, machine uint16, rdma bool) (err error) {
	addr := Addr(filepath.Join(dir, "addr"))
	c := NewStream(addr, id)
	if rdma {
		if c, err = NewRDMA(addr, id, machine); err != nil {
			return err
		}
	}
	defer c.Close()
	return run(ctx, dir, id, c)
}

// run runs a worker with its list.
func run(ctx context.Context, dir string, id uint16, c Caller) error {
	l, past, err := OpenList(filepath.Join(dir, "lists", strconv.Itoa(int(id))), id)
	if err != nil {
		return err
	}
	defer l.Close()
	export, err := Addr(filepath.Join(dir, "addr")).Export(ctx)
	if err != nil {
		return err
	}
	w := &Worker{ID: id, Seed: rand.Uint64(), Caller: c, List: l, Past: past}
	return w.Run(ctx, export)
}

// loadLists reads the lists of all workers.
func loadLists(dir string) ([]*History, error) {
	names, err := filepath.Glob(filepath.Join(dir, "lists", "*"))
	if err != nil {
		return nil, err
	}
	var all []*History
	for _, name := range names {
		id, err := strconv.ParseUint(filepath.Base(name), 10, 16)
		if err != nil {
			return nil, err
		}
		h, err := LoadList(name, uint16(id))
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// checkDir compares the lists with the export, and logs what was there.
func checkDir(dir string) (string, error) {
	all, err := loadLists(dir)
	if err != nil {
		return "", err
	}
	return checkTree(all, filepath.Join(dir, "export"))
}

func checkTree(all []*History, export string) (string, error) {
	tree, err := ReadTree(export)
	if err != nil {
		return "", err
	}
	var sum tally
	for _, h := range all {
		sum.add(h)
	}
	return fmt.Sprintf("%v, by %d workers", &sum, len(all)), CheckAll(all, tree)
}

// runKeeper is a server that pushes its replies.
func runKeeper(work string) error {
	export := filepath.Join(work, "export")
	files, err := dir.New(export, &dir.Config{Key: []byte("of a server that comes back often")})
	if err != nil {
		return err
	}
	nfs, err := server.New(&server.Config{Exports: []server.Export{{Path: export, FS: files, Squash: server.SquashNone}}})
	if err != nil {
		return err
	}
	var at [3]net.Listener
	for i := range at {
		if at[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	p := &replies.Pusher{Handler: nfs, Addr: at[2].Addr().String()}
	ts := &transport.Server{Handler: p}
	errs := make(chan error, 3)
	go func() { errs <- ts.Serve(at[0]) }()
	go func() { errs <- ts.ServeStream(at[1]) }()
	go func() { errs <- p.Serve(at[2]) }()
	port := filepath.Join(work, "port")
	text := fmt.Sprintf("EXPORT=%s\nRDMA=%s\nTCP=%s\nPID=%d\n", export, at[0].Addr(), at[1].Addr(), os.Getpid())
	if err := errors.Join(os.WriteFile(port+".new", []byte(text), 0o600), os.Rename(port+".new", port)); err != nil {
		return err
	}
	return <-errs
}

// runKept runs the worker of client c that has its replies in a log. It continues with the list
// of its last life if the log knows what has become of the open operation, else with another.
func runKept(ctx context.Context, work string, c int) error {
	logs := filepath.Join(work, "client"+strconv.Itoa(c))
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	id := uint16(1000*c + 501) // those before are of other workers
	var past []*History
	for ; ; id++ {
		h, err := LoadList(filepath.Join(work, "lists", strconv.Itoa(int(id))), id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		past = append(past, h)
	}
	addr := Addr(filepath.Join(work, "addr"))
	caller, err := NewKept(addr, id, logs)
	if err != nil {
		return err
	}
	defer caller.Close()
	if len(past) > 0 {
		last := past[len(past)-1]
		res, err := caller.(*kept).recall(past)
		if err != nil {
			return fmt.Errorf("worker %d: %w", last.Worker, err)
		}
		if o := last.Open(); o == nil || o.looks() || res != nil {
			id = last.Worker
			caller.(*kept).init(id)
			if err := settle(work, last, res); err != nil {
				return err
			}
		}
	}
	return run(ctx, work, id, caller)
}

// settle puts the result of the open operation on the list.
func settle(work string, h *History, res *Result) error {
	if res == nil {
		return nil // nothing is open, or it can be called anew
	}
	o := h.Open()
	l, _, err := OpenList(filepath.Join(work, "lists", strconv.Itoa(int(h.Worker))), h.Worker)
	if err != nil {
		return err
	}
	return errors.Join(l.Result(o.N, res), l.Close())
}

// tally counts what the answers on lists promised: a check of lists that promised nothing proves nothing.
type tally struct {
	acked     int
	stable    int // writes that were durable when they were answered
	committed int // files that a COMMIT made durable
	changed   int // answers with another verifier than that of the data before
	rewritten int // writes of data that such an answer had given up
	again     int // calls that were answered once more, the same as the first time
	open      int
}

// String describes the counts for a log.
func (c *tally) String() string {
	return fmt.Sprintf("%d acknowledged, %d stable, %d committed, %d verifiers changed, %d rewritten, %d sent again, %d open",
		c.acked, c.stable, c.committed, c.changed, c.rewritten, c.again, c.open)
}

func (c *tally) add(h *History) {
	c.again += len(h.Again)
	m := NewModel(h.Worker)
	lost := make(map[*node]bool) // some of its data may be
	for i, o := range h.Ops {
		res := h.Results[i]
		if res == nil {
			c.open++
			continue
		}
		c.acked++
		if n := m.find(o.Path); n != nil && res.Status == nfs3.OK {
			c.count(o, res, n, lost)
		}
		if res.Status != nfs3.ErrJukebox {
			m.Apply(o, res)
		}
	}
}

// count counts an answer about a file that is as n before.
func (c *tally) count(o *Op, res *Result, n *node, lost map[*node]bool) {
	switch {
	case o.Kind == Write && res.Stable:
		c.stable++
		if lost[n] {
			c.rewritten++
			delete(lost, n)
		}
	case o.Kind != Write && o.Kind != Commit || !n.loose:
	case n.verf != res.Verf:
		c.changed++
		lost[n] = true
	case o.Kind == Commit && !n.mixed:
		c.committed++
	}
}

// TestTally: what is counted is what a client would have to do again.
func TestTally(t *testing.T) {
	attr := &nfs3.Attr{Type: nfs3.TypeReg}
	h := &History{Worker: 1}
	do := func(o Op, res *Result) {
		o.N, o.Path = uint32(len(h.Ops)+1), "w1"
		h.Ops, h.Results = append(h.Ops, &o), append(h.Results, res)
	}
	unstable := Op{Kind: Write, Pieces: 2}
	do(Op{Kind: Guarded}, &Result{Attr: attr})
	do(unstable, &Result{Verf: 1})
	do(Op{Kind: Commit}, &Result{Verf: 1})
	do(unstable, &Result{Verf: 1})
	do(Op{Kind: Commit}, &Result{Verf: 2}) // the server has lost them
	do(Op{Kind: Write, Pieces: 2, Stable: nfs3.FileSync}, &Result{Stable: true, Verf: 2})
	do(Op{Kind: Write, Pieces: 1, Stable: nfs3.FileSync}, &Result{Stable: true, Verf: 2})
	do(Op{Kind: Remove}, nil)
	h.Again = []Repeat{{1, h.Results[0]}}
	var got tally
	got.add(h)
	if want := (tally{acked: 7, stable: 2, committed: 1, changed: 1, rewritten: 1, again: 1, open: 1}); got != want {
		t.Errorf("%v, want %v", &got, &want)
	}
}
