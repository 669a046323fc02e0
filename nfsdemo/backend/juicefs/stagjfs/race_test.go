package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

var (
	raceRounds = flag.Int("race.rounds", 1, "how often TestRace runs each pair of calls, at one server and at two")
	raceSeed   = flag.Uint64("race.seed", 0, "of TestRace; 0: the time")
	raceAll    = flag.Bool("race.all", false, "TestRace runs all pairs of calls, not 40 of them")
	raceOnly   = flag.String("race.only", "", "the pair of calls that TestRace runs, as it names it; empty: all")
)

// scene is what two clients race on: a directory with a file of two names, an empty directory and one with a file.
type scene struct {
	dir, f, d, e, x nfsclient.Node
}

// racers are all calls that change something, on names that they share.
var racers = []struct {
	name string
	do   func(ctx context.Context, c *nfsclient.Client, s *scene) error
}{
	{"CREATE n", create("n", true)},
	{"CREATE n UNCHECKED", create("n", false)},
	{"CREATE f", create("f", true)},
	{"CREATE f UNCHECKED", create("f", false)},
	{"CREATE e/y", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Create(ctx, &s.e, "y", 0o640, true)
		return err
	}},
	{"CREATE d/y", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Create(ctx, &s.d, "y", 0o640, true)
		return err
	}},
	{"MKDIR n", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Mkdir(ctx, &s.dir, "n", 0o750)
		return err
	}},
	{"MKDIR d/n", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Mkdir(ctx, &s.d, "n", 0o750)
		return err
	}},
	{"SYMLINK n", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Symlink(ctx, &s.dir, "n", "target")
		return err
	}},
	{"LINK f n", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Link(ctx, &s.f, &s.dir, "n") }},
	{"LINK f d/y", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Link(ctx, &s.f, &s.d, "y") }},
	{"LINK x n", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Link(ctx, &s.x, &s.dir, "n") }},
	{"REMOVE f", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Remove(ctx, &s.dir, "f") }},
	{"REMOVE g", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Remove(ctx, &s.dir, "g") }},
	{"REMOVE n", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Remove(ctx, &s.dir, "n") }},
	{"REMOVE e/x", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Remove(ctx, &s.e, "x") }},
	{"RMDIR d", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Rmdir(ctx, &s.dir, "d") }},
	{"RMDIR e", func(ctx context.Context, c *nfsclient.Client, s *scene) error { return c.Rmdir(ctx, &s.dir, "e") }},
	{"RENAME f g", rename("f", "g")}, // nothing: both are names of one file
	{"RENAME f n", rename("f", "n")},
	{"RENAME g n", rename("g", "n")},
	{"RENAME n f", rename("n", "f")},
	{"RENAME d n", rename("d", "n")},
	{"RENAME d e", rename("d", "e")},
	{"RENAME e d", rename("e", "d")},
	{"RENAME e/x f", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.Rename(ctx, &s.e, "x", &s.dir, "f")
	}},
	{"RENAME f e/x", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.Rename(ctx, &s.dir, "f", &s.e, "x")
	}},
	{"RENAME e/x d/x", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.Rename(ctx, &s.e, "x", &s.d, "x")
	}},
	{"SETATTR f mode", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.SetAttr(ctx, &s.f, &nfs3.SetAttr{SetMode: true, Mode: 0o600})
	}},
	{"SETATTR f size", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.SetAttr(ctx, &s.f, &nfs3.SetAttr{SetSize: true, Size: 3})
	}},
	{"WRITE f", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, _, err := c.WriteAt(ctx, &s.f, []byte("ABCDE"), 5, nfs3.FileSync)
		return err
	}},
	{"WRITE x", func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, _, err := c.WriteAt(ctx, &s.x, []byte("more"), 1, nfs3.FileSync)
		return err
	}},
}

func create(name string, excl bool) func(context.Context, *nfsclient.Client, *scene) error {
	return func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		_, err := c.Create(ctx, &s.dir, name, 0o640, excl)
		return err
	}
}

func rename(from, to string) func(context.Context, *nfsclient.Client, *scene) error {
	return func(ctx context.Context, c *nfsclient.Client, s *scene) error {
		return c.Rename(ctx, &s.dir, from, &s.dir, to)
	}
}

// set makes a scene.
func (s *scene) set(ctx context.Context, c *nfsclient.Client, name string) error {
	dir, err := c.Mkdir(ctx, c.Root(), name, 0o755)
	if err != nil {
		return err
	}
	s.dir = *dir
	var errs []error
	add := func(at *nfsclient.Node, n *nfsclient.Node, err error) {
		if errs = append(errs, err); err == nil {
			*at = *n
		}
	}
	n, err := c.Create(ctx, &s.dir, "f", 0o644, false)
	add(&s.f, n, err)
	n, err = c.Mkdir(ctx, &s.dir, "d", 0o755)
	add(&s.d, n, err)
	n, err = c.Mkdir(ctx, &s.dir, "e", 0o755)
	add(&s.e, n, err)
	n, err = c.Create(ctx, &s.e, "x", 0o644, false)
	add(&s.x, n, err)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, _, err = c.WriteAt(ctx, &s.f, []byte("0123456789"), 0, nfs3.FileSync)
	return errors.Join(err, c.Link(ctx, &s.f, &s.dir, "g"))
}

// look says what is in a scene now: under which names, and of what has none any more, whether it still exists.
func (s *scene) look(ctx context.Context, c *nfsclient.Client) string {
	var b strings.Builder
	known := map[uint64]string{s.f.Attr.FileID: "F", s.d.Attr.FileID: "D", s.e.Attr.FileID: "E", s.x.Attr.FileID: "X"}
	var walk func(dir *nfsclient.Node, path string)
	walk = func(dir *nfsclient.Node, path string) {
		list, err := c.ReadDir(ctx, dir)
		if err != nil {
			fmt.Fprintf(&b, " %s:%s", path, statusOf(err))
		}
		slices.SortFunc(list, func(a, b *nfsclient.Node) int { return strings.Compare(a.Name(), b.Name()) })
		for _, n := range list {
			if err := c.Refresh(ctx, n); err != nil {
				fmt.Fprintf(&b, " %s%s:%s", path, n.Name(), statusOf(err))
				continue
			}
			a := &n.Attr
			fmt.Fprintf(&b, " %s%s=%s%d/%o/%d", path, n.Name(), known[a.FileID], a.Type, a.Mode, a.Nlink)
			switch a.Type {
			case nfs3.TypeDir:
				walk(n, path+n.Name()+"/")
			case nfs3.TypeReg:
				p := make([]byte, 32)
				k, err := c.ReadAt(ctx, n, p, 0)
				fmt.Fprintf(&b, "/%d%q", a.Size, p[:k])
				if err != nil && k != int(a.Size) {
					b.WriteString(statusOf(err))
				}
			default:
			}
		}
	}
	dir := s.dir
	walk(&dir, "")
	for _, n := range []nfsclient.Node{s.f, s.d, s.e, s.x} {
		err := c.Refresh(ctx, &n)
		fmt.Fprintf(&b, " %s:%d,%s", known[n.Attr.FileID], n.Attr.Nlink, statusOf(err))
	}
	return b.String()
}

// outcome is what two calls have answered, and what is there afterwards.
func outcome(ctx context.Context, c *nfsclient.Client, s *scene, errs [2]error) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(statusOf(err) + " ")
	}
	return b.String() + s.look(ctx, c)
}

// statusOf is an error without the path, which differs.
func statusOf(err error) string {
	st := nfs3.OK
	if err != nil && !errors.As(err, &st) {
		return err.Error()
	}
	return strings.TrimPrefix(st.String(), "NFS3")
}

// TestRace lets two clients make two calls on shared names at the same moment, at one server and at two. What they answer
// and leave must be what they do one after the other, in one of the two orders. That one server does the right thing with one
// call after the other, the suite of the backends says.
func TestRace(t *testing.T) {
	seed := *raceSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	uri := newVolume(t)
	servers := [2]*server{start(t, uri), start(t, uri)}
	ctx := t.Context()
	type race struct{ i, j int }
	var todo []race
	for i := range racers {
		for j := i; j < len(racers); j++ {
			if name := racers[i].name + " | " + racers[j].name; *raceOnly == "" || *raceOnly == name {
				todo = append(todo, race{i, j})
			}
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	rnd.Shuffle(len(todo), func(a, b int) { todo[a], todo[b] = todo[b], todo[a] })
	if !*raceAll {
		todo = todo[:min(len(todo), 40)]
	}

	var mu sync.Mutex
	runs, failed := 0, make(map[string]int)
	work := make(chan race)
	var wg sync.WaitGroup
	for w := range 4 {
		rnd := rand.New(rand.NewPCG(seed, uint64(w)+2))
		c := [3]*nfsclient.Client{dial(t, servers[0]), dial(t, servers[0]), dial(t, servers[1])}
		n := 0
		set := func() *scene {
			s := new(scene)
			n++
			if err := s.set(ctx, c[0], fmt.Sprintf("w%d.%d", w, n)); err != nil {
				t.Error(err)
			}
			return s
		}
		wg.Go(func() {
			for r := range work {
				a, b := racers[r.i], racers[r.j]
				var want [2]string
				for order := range want {
					s := set()
					var errs [2]error
					if order == 0 {
						errs[0] = a.do(ctx, c[0], s)
					}
					errs[1] = b.do(ctx, c[1], s)
					if order == 1 {
						errs[0] = a.do(ctx, c[0], s)
					}
					want[order] = outcome(ctx, c[0], s, errs)
				}
				for k := range 2 * *raceRounds {
					s := set()
					mine, its := *s, *s // a client changes the attributes in its Node
					others := c[1+k%2]
					pause := time.Duration(rnd.IntN(4000)-2000) * time.Microsecond // who is first
					var errs [2]error
					var both sync.WaitGroup
					both.Go(func() { time.Sleep(pause); errs[0] = a.do(ctx, c[0], &mine) })
					both.Go(func() { time.Sleep(-pause); errs[1] = b.do(ctx, others, &its) })
					both.Wait()
					got := outcome(ctx, c[0], s, errs)
					mu.Lock()
					runs++
					if !slices.Contains(want[:], got) {
						name := fmt.Sprintf("%s | %s at %d server(s)", a.name, b.name, 1+k%2)
						if failed[name]++; failed[name] == 1 {
							t.Errorf("%s:\n got %s\nwant %s\n  or %s", name, got, want[0], want[1])
						}
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, r := range todo {
		work <- r
	}
	close(work)
	wg.Wait()
	bad := 0
	for _, n := range failed {
		bad += n
	}
	t.Logf("seed %d: %d pairs of calls, %d rounds, %d of them (%d kinds) are no order of the two", seed, len(todo), runs, bad, len(failed))
}
