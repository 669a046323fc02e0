package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// served exports a new directory, and returns it and the URL of the export. A round trip takes rtt.
func served(t *testing.T, rdma bool, rtt time.Duration) (root, url string) {
	t.Helper()
	return servedBy(t, rdma, rtt, func(h *server.Server) rpc.Handler { return h })
}

// servedBy is served with something in front of the server.
func servedBy(t *testing.T, rdma bool, rtt time.Duration, front func(*server.Server) rpc.Handler) (root, url string) {
	t.Helper()
	root = t.TempDir()
	fsys := must(dir.New(root, nil))(t)
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &transport.Server{Handler: front(h)}
	serve, scheme := s.ServeStream, "nfs://"
	if rdma {
		serve, scheme = s.Serve, "nfs+rdma://"
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	addr := l.Addr().String()
	if rtt > 0 {
		addr = delayed(t, addr, rtt/2)
	}
	t.Cleanup(func() {
		s.Close()
		<-done
		fsys.Close()
	})
	return root, scheme + addr + "/export"
}

// delayed relays connections to addr. Each octet arrives d later than without it.
func delayed(t *testing.T, addr string, d time.Duration) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", addr)
			if err != nil {
				a.Close()
				continue
			}
			wg.Go(func() { pass(a, b, d) })
			wg.Go(func() { pass(b, a, d) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// pass copies from a to b, d later.
func pass(a, b net.Conn, d time.Duration) {
	type piece struct {
		data []byte
		at   time.Time
	}
	way := make(chan piece, 1<<12)
	go func() {
		defer close(way)
		for {
			mem := make([]byte, 64<<10)
			n, err := a.Read(mem)
			if n > 0 {
				way <- piece{mem[:n], time.Now().Add(d)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		time.Sleep(time.Until(p.at))
		if _, err := b.Write(p.data); err != nil {
			a.Close() // then way is closed
		}
	}
	b.Close()
}

// run runs a command.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Main(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// mustRun runs a command that must succeed.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := run(args...)
	if status != 0 {
		t.Fatalf("%s: status %d, %s", strings.Join(args, " "), status, errs)
	}
	return out
}

// fill makes a file of n octets that look random.
func fill(t *testing.T, name string, n int) []byte {
	t.Helper()
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data) // never fails
	noErr(t, os.MkdirAll(filepath.Dir(name), 0o755))
	noErr(t, os.WriteFile(name, data, 0o644))
	return data
}

// sameFile fails the test unless a file has the content.
func sameFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d octets, %v; want %d", name, len(got), err, len(want))
	}
}

// crowded counts how many of its calls, of 10 ms each, run at the same time.
type crowded struct {
	*server.Server
	now, most atomic.Int32
}

func (*crowded) Describe(*rpc.Request) rpc.Traits { return rpc.Traits{Blocks: true} }

func (c *crowded) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	for n, most := c.now.Add(1), c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	defer c.now.Add(-1)
	time.Sleep(10 * time.Millisecond)
	c.Server.ServeRPC(ctx, req, resp)
}

// TestManyFilesAtATime: 100 files are copied, and removed, many at a time, in one directory or each in its own.
func TestManyFilesAtATime(t *testing.T) {
	for _, rdma := range []bool{false, true} {
		t.Run(fmt.Sprintf("rdma=%v", rdma), func(t *testing.T) {
			src, form := filepath.Join(t.TempDir(), "tree"), "%d"
			if rdma {
				form = "%d/sub/file"
			}
			for i := range 100 {
				fill(t, filepath.Join(src, fmt.Sprintf(form, i)), 1000+i)
			}
			var calls *crowded
			root, url := servedBy(t, rdma, 0, func(h *server.Server) rpc.Handler { calls = &crowded{Server: h}; return calls })
			for _, args := range [][]string{
				{"cp", "-r", src, url + "/"},
				{"cp", "-r", url + "/tree", t.TempDir()},
				{"rm", "-r", url + "/tree"},
			} {
				calls.most.Store(0)
				mustRun(t, args...)
				if n := calls.most.Load(); n < 8 {
					t.Errorf("%v: %d calls at a time", args, n)
				}
				if args[0] == "cp" {
					for i := range 100 {
						name := fmt.Sprintf(form, i)
						sameFile(t, filepath.Join(root, "tree", name), fill(t, filepath.Join(src, name), 1000+i))
					}
				}
			}
			if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// names lists the files below a directory.
func names(t *testing.T, root string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, p)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestResume: what an earlier run has left is continued, in both directions; --verify finds a part that is of
// something else.
func TestResume(t *testing.T) {
	const size = 20 << 20
	root, url := served(t, true, 0)
	local := t.TempDir()
	far, near := filepath.Join(root, "tree"), filepath.Join(local, "tree")
	for _, x := range []struct{ name, src, dst, from, to string }{
		{"to a server", near, far, near, url},
		{"from a server", far, near, url + "/tree", local},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, verify := range []bool{false, true} {
				noErr(t, errors.Join(os.RemoveAll(near), os.RemoveAll(far)))
				data := fill(t, filepath.Join(x.src, "big"), size)
				fill(t, filepath.Join(x.src, "done"), 10)
				part := bytes.Clone(data[:size-1<<20])
				part[0]++ // nobody looks at it again, except with --verify
				if err := errors.Join(os.MkdirAll(x.dst, 0o755), os.WriteFile(filepath.Join(x.dst, "big.part"), part, 0o644),
					os.WriteFile(filepath.Join(x.dst, "done"), []byte("0123456789"), 0o644)); err != nil {
					t.Fatal(err)
				}
				args := []string{"cp", "-r", "--resume", "--json"}
				if verify {
					args = append(args, "--verify")
				}
				status, out, errs := run(append(args, x.from, x.to)...)
				if verify {
					if status != 1 || !strings.Contains(errs, "differs from the source at octet 0") || strings.Join(names(t, x.dst), " ") != "done" {
						t.Errorf("status %d, %s, %v", status, errs, names(t, x.dst))
					}
					mustRun(t, append(args, x.from, x.to)...)
					sameFile(t, filepath.Join(x.dst, "big"), data)
					continue
				}
				if status != 0 || strings.Count(out, "\n") != 1 || strings.Join(names(t, x.dst), " ") != "big done" {
					t.Errorf("status %d, %s%s, %v", status, out, errs, names(t, x.dst))
				}
				sameFile(t, filepath.Join(x.dst, "big"), append(part[:1:1], data[1:]...))
				sameFile(t, filepath.Join(x.dst, "done"), []byte("0123456789")) // as large, and not older
			}
		})
	}
}

// TestResumeOlder: a part that is older than the source is of an earlier version.
func TestResumeOlder(t *testing.T) {
	root, url := served(t, false, 0)
	src := filepath.Join(t.TempDir(), "big")
	data := fill(t, src, 12<<20)
	part := filepath.Join(root, "big.part")
	fill(t, part, 11<<20)
	old := time.Now().Add(-time.Hour)
	noErr(t, os.Chtimes(part, old, old))
	mustRun(t, "cp", "--resume", src, url)
	sameFile(t, filepath.Join(root, "big"), data)
}

// TestSelection: -n, --update and --exclude.
func TestSelection(t *testing.T) {
	src := filepath.Join(t.TempDir(), "tree")
	for _, name := range []string{"a", "b.o", "c/a", "c/d.o", "c/e/a", "skip/x"} {
		fill(t, filepath.Join(src, name), 100)
	}
	root, url := served(t, true, 0)
	copied := filepath.Join(root, "tree")
	mustRun(t, "cp", "-rp", "--exclude", "*.o", "--exclude", "skip", "--exclude", "c/e", src, url)
	if got := strings.Join(names(t, root), " "); got != "tree/a tree/c/a" {
		t.Errorf("copied %s", got)
	}
	if out := mustRun(t, "cp", "-rp", "--update", "--json", src, url); strings.Count(out, "\n") != 4 { // all that was excluded
		t.Errorf("--update copied\n%s", out)
	}
	newer := fill(t, filepath.Join(src, "a"), 101)
	if err := os.WriteFile(filepath.Join(copied, "b.o"), []byte("mine"), 0o644); err != nil { // newer than the source
		t.Fatal(err)
	}
	if out := mustRun(t, "cp", "-rp", "-u", "--json", src, url); strings.Count(out, "\n") != 1 {
		t.Errorf("--update copied\n%s", out)
	}
	sameFile(t, filepath.Join(copied, "a"), newer)
	sameFile(t, filepath.Join(copied, "b.o"), []byte("mine"))
	if out := mustRun(t, "cp", "-rn", "--json", src, url); out != "" {
		t.Errorf("-n copied\n%s", out)
	}
}

// TestPartNames: files whose names are those of others' parts, and names that are too long for a suffix.
func TestPartNames(t *testing.T) {
	src := filepath.Join(t.TempDir(), "tree")
	long := strings.Repeat("x", 254)
	list := []string{"a", "a.part", "a.part.part", long + "1", long + "2", "z.part"}
	for i, name := range list {
		fill(t, filepath.Join(src, name), 100+i)
	}
	root, url := served(t, true, 0)
	back := t.TempDir()
	for range 3 {
		mustRun(t, "cp", "-r", "--verify", src, url)
		mustRun(t, "cp", "-r", url+"/tree", back)
		for _, dir := range []string{root, back} {
			dir = filepath.Join(dir, "tree")
			if got := names(t, dir); len(got) != len(list) {
				t.Errorf("%d names, want %d: %.300q", len(got), len(list), got)
			}
			for i, name := range list {
				sameFile(t, filepath.Join(dir, name), fill(t, filepath.Join(src, name), 100+i))
			}
		}
	}
}

// TestReplaced: a file is replaced as a whole, and keeps its mode; what the user names by a link is replaced
// behind the link; a directory is not replaced.
func TestReplaced(t *testing.T) {
	root, url := served(t, true, 0)
	local := t.TempDir()
	data := fill(t, filepath.Join(local, "new"), 1000)
	far := fill(t, filepath.Join(root, "far"), 2000)
	for _, dir := range []string{root, local} {
		fill(t, filepath.Join(dir, "old"), 5000)
		if err := errors.Join(os.Chmod(filepath.Join(dir, "old"), 0o600), os.Symlink("old", filepath.Join(dir, "link")),
			os.Mkdir(filepath.Join(dir, "dir"), 0o755), os.Mkdir(filepath.Join(dir, "dir", "new"), 0o755),
			os.Mkdir(filepath.Join(dir, "dir", "far"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, "cp", filepath.Join(local, "new"), url+"/link")
	mustRun(t, "cp", url+"/far", filepath.Join(local, "link"))
	sameFile(t, filepath.Join(root, "old"), data)
	sameFile(t, filepath.Join(local, "old"), far)
	for _, dir := range []string{root, local} {
		old, err := os.Lstat(filepath.Join(dir, "old"))
		link, lerr := os.Lstat(filepath.Join(dir, "link"))
		if err != nil || lerr != nil || old.Mode() != 0o600 || link.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%v %v %v %v", old, err, link, lerr)
		}
	}
	for _, args := range [][]string{
		{"cp", filepath.Join(local, "new"), url + "/dir"},
		{"cp", url + "/far", filepath.Join(local, "dir")},
	} {
		if status, _, errs := run(args...); status != 1 || !strings.Contains(errs, "is a directory") {
			t.Errorf("%v: status %d, %s", args, status, errs)
		}
	}
	mustRun(t, "cp", url+"/far", os.DevNull)
}

// TestSameNames: sources that would overwrite each other.
func TestSameNames(t *testing.T) {
	root, url := served(t, false, 0)
	local := t.TempDir()
	fill(t, filepath.Join(local, "a", "x"), 1)
	fill(t, filepath.Join(local, "b", "x"), 2)
	status, _, errs := run("cp", filepath.Join(local, "a", "x"), filepath.Join(local, "b", "x"), url)
	if status != 1 || !strings.Contains(errs, "would overwrite each other") || len(names(t, root)) > 0 {
		t.Errorf("status %d, %s, %v", status, errs, names(t, root))
	}
}

// TestLocalTreeIsConfined plays a server that lists a symbolic link and then a
// directory of the same name: nothing may be written through the link.
func TestLocalTreeIsConfined(t *testing.T) {
	outside := t.TempDir()
	dst := must(openLocal(t.TempDir()))(t)
	defer dst.close()
	sub := must(dst.sub(t.Context(), "copy", 0o755))(t)
	defer sub.close()
	_, err := sub.symlink(t.Context(), "evil", outside)
	noErr(t, err)
	if deeper, err := sub.sub(t.Context(), "evil", 0o755); err == nil {
		deeper.close()
		t.Error("a directory was opened through a link that leads out")
	}
	for _, name := range []string{"evil/x", "../x", "/x"} {
		if f, err := sub.create(t.Context(), name, 0o644); err == nil {
			_ = f.close()
			t.Errorf("%s was opened", name)
		}
	}
	if list, _ := os.ReadDir(outside); len(list) != 0 {
		t.Errorf("%d files were written outside", len(list))
	}
}

func TestLocalSymlinkIsReplaced(t *testing.T) {
	dst := must(openLocal(t.TempDir()))(t)
	defer dst.close()
	for _, tt := range []struct {
		to, want string
		keep     bool
	}{{"a", "a", false}, {"b", "b", false}, {"c", "b", true}} {
		noErr(t, (&copier{keep: tt.keep}).link(t.Context(), &source{name: "l"}, dst, tt.to))
		if got, _ := os.Readlink(filepath.Join(dst.path, "l")); got != tt.want {
			t.Errorf("link to %q, want %q", got, tt.want)
		}
	}
	noErr(t, os.WriteFile(filepath.Join(dst.path, "file"), nil, 0o644))
	if err := new(copier).link(t.Context(), &source{name: "file"}, dst, "x"); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file: got %v, want ErrExist", err)
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// eventually waits until done, as long as go test does, since the machine may be busy. what says what is not so by then.
func eventually(t testing.TB, done func() bool, what ...any) {
	t.Helper()
	end, limited := time.Time{}, false
	if t, ok := t.(*testing.T); ok {
		end, limited = t.Deadline()
	}
	for ; !done(); time.Sleep(time.Millisecond) {
		if limited && time.Until(end) < 10*time.Second {
			t.Fatal(what...)
		}
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// early is a server whose files end at cut, although their attributes say more.
type early struct {
	*server.Server
	cut uint64
}

func (e early) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	var a nfs3.ReadArgs
	d := xdr.NewDecoder(req.Args)
	if req.Prog == nfs3.Program && nfs3.Proc(req.Proc) == nfs3.ProcRead && xdr.Decode(&d, &a).Err() == nil {
		if a.Offset >= e.cut {
			a.Offset = 1 << 40
		} else {
			a.Count = uint32(min(uint64(a.Count), e.cut-a.Offset))
		}
		r := *req
		r.Args = xdr.Encode(nil, &a)
		req = &r
	}
	e.Server.ServeRPC(ctx, req, resp)
}

// TestEarlyEnd: a file that ends before its size is not taken for all of it, neither when it is copied or printed nor
// when a copy is verified.
func TestEarlyEnd(t *testing.T) {
	const size, cut = 3 << 20, 5 << 18 // not at the end of a block
	root, url := servedBy(t, true, 0, func(h *server.Server) rpc.Handler { return early{h, cut} })
	local := t.TempDir()
	fill(t, filepath.Join(root, "far"), size)
	fill(t, filepath.Join(local, "near"), size)
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"cat", url + "/far"}, "became shorter"},
		{[]string{"cp", url + "/far", "-"}, "became shorter"},
		{[]string{"cp", url + "/far", local}, "became shorter"},
		{[]string{"cp", "--verify", filepath.Join(local, "near"), url}, "differs from the source at octet 1310720"},
	} {
		if status, _, errs := run(x.args...); status != 1 || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %s", x.args, status, errs)
		}
	}
	if got := strings.Join(append(names(t, root), names(t, local)...), " "); got != "far near" {
		t.Errorf("files %s", got)
	}
}

// TestHostileServers: whatever a server lists, cp -r, ls -R and rm -r end with a line that says why, in bounded
// memory.
func TestHostileServers(t *testing.T) {
	files := func(n int, dirs bool) func(c uint64) []backendtest.Entry {
		return func(c uint64) (all []backendtest.Entry) {
			for k := c + 1; k <= c+uint64(n); k++ {
				all = append(all, backendtest.Entry{Name: fmt.Sprint(k), Cookie: k, Dir: dirs})
			}
			return all
		}
	}
	for _, x := range []struct {
		name   string
		server backendtest.Liar
		flags  []string
		want   string
	}{
		{"a loop", backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
			return []backendtest.Entry{{Name: "a", Cookie: 1 + c%2}}, false
		}}, nil, "runs in a circle"},
		{
			"an endless directory",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(200, false)(c), false }},
			[]string{"--max-names", "500"},
			"--max-names",
		},
		{"an endless path", backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
			return []backendtest.Entry{{Name: strings.Repeat("long", 50), Cookie: 1, Dir: true}}, true
		}}, nil, "4096 octets"},
		{
			"wide and nested",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(25, true)(c), c > 1000 }},
			[]string{"--max-names", "1000"},
			"the server may",
		},
		{
			"a wide directory on each level",
			backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) { return files(225, true)(c), true }},
			[]string{"--max-names", "10000000"},
			"the server may",
		},
		{"strays", backendtest.Liar{Strays: true, Page: func(uint64) ([]backendtest.Entry, bool) { return nil, true }}, []string{"--call-timeout", "300ms"}, "answer no call"},
	} {
		for _, rdma := range []bool{false, true} {
			if rdma && len(x.flags) > 1 && x.flags[0] == "--max-names" {
				continue // the client is the same: once is enough for the slow ones
			}
			if region.RaceDetector && x.name == "a wide directory on each level" {
				continue // two million names
			}
			t.Run(fmt.Sprintf("%s rdma=%v", x.name, rdma), func(t *testing.T) {
				url := x.server.Listen(t, rdma) + "/dir"
				for _, args := range [][]string{{"cp", "-r", url, t.TempDir()}, {"ls", "-R", url}, {"rm", "-r", url}} {
					var out, errs bytes.Buffer
					status := 0
					backendtest.Live(t, 256<<20, func() {
						status = Main(append(args[:2:2], append(x.flags, args[2:]...)...), strings.NewReader(""), &out, &errs)
					})
					line := errs.String()
					if status != 1 || !strings.Contains(line, x.want) || strings.Count(line, "\n") != 1 || len(line) > 1500 || !utf8.ValidString(line) {
						t.Errorf("%s: status %d, %d octets of output, errors %.2000q; want %q", args[0], status, out.Len(), line, x.want)
					}
				}
			})
		}
	}
}
