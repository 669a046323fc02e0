package crash

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
