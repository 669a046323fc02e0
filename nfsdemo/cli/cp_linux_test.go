package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slow are flags with which a file moves 64 KiB per round trip.
var slow = []string{"--in-flight", "1", "--block", "65536"}

// TestInterruptedCopy: Ctrl-C ends cp -r with status 130, and leaves copies that are complete and NAME.part, which
// --resume continues.
func TestInterruptedCopy(t *testing.T) {
	root, url := served(t, true, 0)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "nfs+rdma://"), "/export")
	far := strings.Replace(url, host, delayed(t, host, 10*time.Millisecond), 1)
	local := t.TempDir()
	tree := make(map[string][]byte)
	for i := range 6 {
		name := fmt.Sprint(i)
		tree[name] = fill(t, filepath.Join(local, "tree", name), 5<<20+i)
		fill(t, filepath.Join(root, "far", name), 5<<20+i)
	}
	back := t.TempDir()
	for _, x := range []struct{ from, to, dir string }{
		{filepath.Join(local, "tree"), far, filepath.Join(root, "tree")},
		{far + "/far", back, filepath.Join(back, "far")},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append(append([]string{"cp", "-r"}, slow...), x.from, x.to)...)
		cmd.Env = append(os.Environ(), "STAG_TEST_AS_COMMAND=yes")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		noErr(t, cmd.Start())
		eventually(t, func() bool {
			parts, _ := filepath.Glob(filepath.Join(x.dir, "*.part"))
			if len(parts) < 2 {
				return false
			}
			st, err := os.Stat(parts[0])
			return err == nil && st.Size() > 1<<20
		}, "no parts")
		noErr(t, cmd.Process.Signal(os.Interrupt))
		exit, _ := errors.AsType[*exec.ExitError](cmd.Wait())
		if exit == nil || exit.ExitCode() != 130 || !regexp.MustCompile(`^nfsdemo: \d files? left as NAME.part: .*\nnfsdemo: interrupted\n$`).MatchString(errs.String()) {
			t.Errorf("%v: %s", exit, errs.String())
		}
		parts := 0
		for _, name := range names(t, x.dir) {
			if strings.HasSuffix(name, ".part") {
				parts++
			} else {
				sameFile(t, filepath.Join(x.dir, name), tree[name])
			}
		}
		if parts == 0 {
			t.Error("nothing to continue")
		}
		near := strings.NewReplacer(far, url)
		mustRun(t, append(append([]string{"cp", "-r", "--resume", "--verify"}, slow...), near.Replace(x.from), near.Replace(x.to))...)
		if got := names(t, x.dir); len(got) != len(tree) {
			t.Errorf("%v", got)
		}
		for name, data := range tree {
			sameFile(t, filepath.Join(x.dir, name), data)
		}
	}
}

// terminal opens a pseudo-terminal, whose output is what both return.
func terminal(t *testing.T) (tty *os.File, output func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty = must(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	var text bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&text, master) }) // ends with an error when tty is closed
	return tty, sync.OnceValue(func() string {
		tty.Close()
		wg.Wait()
		master.Close()
		return text.String()
	})
}

// TestBar: one bar for all files of a run, with their number, octets, rate and time left, which lasts until the
// end and leaves nothing behind.
func TestBar(t *testing.T) {
	_, url := served(t, true, 20*time.Millisecond)
	src := filepath.Join(t.TempDir(), "tree")
	for i := range 8 {
		fill(t, filepath.Join(src, fmt.Sprint("sub", i%3), fmt.Sprint(i)), 2<<20)
	}
	noErr(t, syscall.Mkfifo(filepath.Join(src, "pipe"), 0o644))
	tty, output := terminal(t)
	defer output()
	status := Main(append(append([]string{"cp", "-r"}, slow...), src, url), strings.NewReader(""), io.Discard, tty)
	text := output()
	if status != 1 || !strings.Contains(text, "pipe: skipped: a named pipe\r\n") {
		t.Errorf("status %d", status)
	}
	frames := regexp.MustCompile(`(\d) of 8 files +(\d+)% [^\r]*\([0-9.]+/16 MiB, [0-9.]+ [KM]iB/s\) \[\d+s:\d+s\]`).FindAllStringSubmatch(text, -1)
	counts, percents := map[string]bool{}, map[string]bool{}
	for _, f := range frames {
		counts[f[1]], percents[f[2]] = true, true
	}
	if len(frames) < 5 || len(counts) < 2 || len(percents) < 5 {
		t.Errorf("%d frames, %d counts of files, %d percentages:\n%q", len(frames), len(counts), len(percents), text)
	}
	rest := text[strings.LastIndex(text, "["):]
	if i := strings.LastIndexAny(rest, "]"); strings.Trim(rest[i+1:], " \r\x1b[2K0G") != "" {
		t.Errorf("the bar is left behind: %q", rest)
	}
}

// look describes what cp -a keeps of a file.
func look(t *testing.T, path string) string {
	t.Helper()
	st := must(os.Lstat(path))(t)
	s := st.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Mode(), st.ModTime().UTC(), s.Uid, ":", s.Gid)
}

// TestArchive: what cp -a keeps is there at a server and back again, and what it cannot keep is said and a failure; cp -p
// only says it.
func TestArchive(t *testing.T) {
	root, url := served(t, true, 0)
	local := filepath.Join(t.TempDir(), "tree")
	when := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	modes := map[string]fs.FileMode{
		"plain": 0o640, "suid": 0o4755, "sgid": 0o2755, "sticky": 0o1644, "secret": 0,
		"dir": fs.ModeDir | 0o2750, "shared": fs.ModeDir | 0o1777,
	}
	noErr(t, os.Mkdir(local, 0o755))
	for name, mode := range modes {
		path := filepath.Join(local, name)
		err := os.WriteFile(path, []byte(name), 0o600)
		if mode.IsDir() {
			_, err = os.Remove(path), os.Mkdir(path, 0o700)
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(path, 1234, 5678)
		}
		if err == nil {
			err = syscall.Chmod(path, uint32(mode&0o7777))
		}
		if err == nil {
			err = os.Chtimes(path, when, when)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "dangling"} { // a link has an owner and a time of its own
		modes[name] = fs.ModeSymlink
		path := filepath.Join(local, name)
		err := os.Symlink(map[string]string{"link": "plain", "dangling": "nowhere"}[name], path)
		if err == nil && os.Getuid() == 0 {
			err = os.Lchown(path, 12, 34)
		}
		if ts := unix.NsecToTimespec(when.UnixNano() - 1e9); err == nil {
			err = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	back := t.TempDir()
	for _, c := range [][2]string{{local, url}, {url + "/tree", back}} {
		if status, _, errs := run("cp", "-a", c[0], c[1]); status != 0 || errs != "" {
			t.Fatalf("%s: status %d, %s", c, status, errs)
		}
	}
	for name := range modes {
		want := look(t, filepath.Join(local, name))
		for _, dir := range []string{filepath.Join(root, "tree"), filepath.Join(back, "tree")} {
			if got := look(t, filepath.Join(dir, name)); got != want {
				t.Errorf("%s in %s: %s, want %s", name, dir, got, want)
			}
		}
	}

	for _, tt := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"early", func(p string) error { return os.Chtimes(p, time.Time{}, time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)) }, "time"},
		{"late", func(p string) error { return os.Chtimes(p, time.Time{}, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)) }, "time"},
		{"linked", func(p string) error { return os.Link(p, p+"2") }, "hard link"},
		{"linked-link", func(p string) error {
			return errors.Join(os.Remove(p), os.Symlink("x", p), os.Link(p, p+"2"))
		}, "hard link"},
		{"attribute", func(p string) error { return unix.Setxattr(p, "user.a", []byte("b"), 0) }, "extended attributes"},
	} {
		dir := filepath.Join(t.TempDir(), tt.name)
		path := filepath.Join(dir, "file")
		fill(t, path, 10)
		if err := tt.make(path); err != nil {
			t.Skipf("%s: %v", tt.name, err)
		}
		want := fmt.Sprintf("nfsdemo: %s not kept: of 1 name, the first is %s", tt.want, path)
		for _, flag := range []string{"-r", "-rp", "-a"} {
			status := 0
			if flag == "-a" {
				status = 1
			}
			got, _, errs := run("cp", flag, dir, url)
			if got != status || strings.HasPrefix(errs, want) == (flag == "-r") || strings.Count(errs, "\n") > 1 {
				t.Errorf("%s %s: status %d, %q; want %d, %q", flag, tt.name, got, errs, status, want)
			}
		}
	}
	// A server has the first and the last time of NFS for those that it cannot say.
	for _, dir := range []string{"early", "late"} {
		if status, _, errs := run("cp", "-a", url+"/"+dir+"/file", back); status != 1 || !strings.Contains(errs, "time before 1970 or after 2106 not kept") {
			t.Errorf("%s: status %d, %s", dir, status, errs)
		}
	}
	// What is copied is the file that a link leads to, with what that has.
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "file"), 10)
	if err := errors.Join(unix.Setxattr(filepath.Join(dir, "file"), "user.a", []byte("b"), 0), os.Symlink("file", filepath.Join(dir, "to"))); err != nil {
		t.Skip(err)
	}
	if _, _, errs := run("cp", "-p", filepath.Join(dir, "to"), url); !strings.HasPrefix(errs, "nfsdemo: extended attributes not kept") {
		t.Errorf("through a link: %q", errs)
	}
}

// TestHoles: a sparse file is one at the server and back again, and a file of zeros is none.
func TestHoles(t *testing.T) {
	root, url := served(t, true, 0)
	src := filepath.Join(t.TempDir(), "sparse")
	f := must(os.Create(src))(t)
	defer f.Close()
	const size = 33<<20 + 5
	for _, at := range []int64{0, 3<<20 - 4096, 20 << 20} {
		must(f.WriteAt(bytes.Repeat([]byte{7}, 8192), at))(t)
	}
	noErr(t, f.Truncate(size))
	used := func(path string) int64 {
		var st syscall.Stat_t
		noErr(t, syscall.Stat(path, &st))
		return st.Blocks * 512
	}
	if used(src) > 1<<20 {
		t.Skip("no sparse files here")
	}
	want := must(os.ReadFile(src))(t)
	dense := filepath.Join(t.TempDir(), "dense")
	noErr(t, os.WriteFile(dense, make([]byte, 5<<20), 0o600))
	back, near := filepath.Join(t.TempDir(), "back"), filepath.Join(root, "sparse")
	mustRun(t, "cp", "--verify", src, url)
	mustRun(t, "cp", "--verify", url+"/sparse", back)
	mustRun(t, "cp", url+"/sparse", url+"/again")
	mustRun(t, "cp", dense, url)
	for _, path := range []string{near, back, filepath.Join(root, "again")} {
		sameFile(t, path, want)
		if n := used(path); n > used(src) {
			t.Errorf("%s takes %d octets, its source %d", path, n, used(src))
		}
	}
	if n := used(filepath.Join(root, "dense")); n < 5<<20 {
		t.Errorf("zeros became holes: %d octets", n)
	}
	// A part that is there is overwritten, also by zeros.
	noErr(t, os.WriteFile(back+".part", bytes.Repeat([]byte{9}, 40<<20), 0o600))
	noErr(t, os.Remove(back))
	mustRun(t, "cp", "--resume", "--in-flight", "100", url+"/sparse", back)
	sameFile(t, back, want)
}

// TestUpdateByCoarserClock: a copy on a file system that knows seconds, or microseconds, is as new as its source; one that
// knows more, and only has a whole second from its source, is not.
func TestUpdateByCoarserClock(t *testing.T) {
	exact := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	for _, tt := range []struct {
		tick, other time.Duration // of the clocks of the two
		set         time.Duration // mtimes are of whole ones
		after       time.Duration // how much later the source was changed
		same        bool
	}{
		{1, 1, 1, 0, true},
		{1, time.Second, 1, 0, true},
		{1, time.Microsecond, 1, 0, true},
		{time.Millisecond, 100, 1, 0, true},
		{1, 1, 1, 1, false},
		{1, 1, time.Second, 0, true},
		{1, 1, time.Second, time.Millisecond, false}, // within the same second
		{100, time.Microsecond, time.Second, time.Millisecond, false},
		{1, time.Second, time.Second, time.Millisecond, true}, // nobody can tell
		{1, time.Second, 1, time.Second, false},
	} {
		on := func(clock time.Duration, t time.Time) stamp {
			return stamp{t.Truncate(clock), exact.Add(time.Hour).Truncate(clock)}
		}
		a, b := on(tt.tick, exact.Truncate(tt.set).Add(tt.after)), on(tt.other, exact.Truncate(tt.set))
		if got, back := sameTime(a, b), sameTime(b, a); got != tt.same || back != tt.same {
			t.Errorf("%+v: %v and %v", tt, got, back)
		}
	}

	root, url := served(t, true, 0)
	src := filepath.Join(t.TempDir(), "file")
	data := fill(t, src, 100)
	copied := filepath.Join(root, "file")
	when := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	for _, tt := range []struct {
		src, copy time.Time
		skipped   bool
	}{
		{when, when, true},
		{when, when.Truncate(time.Second), false}, // both file systems here know more
		{when, when.Add(-time.Nanosecond), false},
		{when, when.Truncate(time.Second).Add(-time.Second), false},
		{when.AddDate(200, 0, 0), time.Unix(1<<32-1, 999999999), true}, // of a copy to a server before
	} {
		noErr(t, os.WriteFile(copied, make([]byte, 100), 0o600))
		for path, at := range map[string]time.Time{src: tt.src, copied: tt.copy} {
			noErr(t, os.Chtimes(path, at, at))
		}
		mustRun(t, "cp", "--update", src, url)
		got, err := os.ReadFile(copied)
		if skipped := !bytes.Equal(got, data); err != nil || skipped != tt.skipped {
			t.Errorf("source %v, copy %v: skipped %v, %v", tt.src, tt.copy, skipped, err)
		}
	}
}

// TestReconnectsByDefault: a copy outlives its connection.
func TestReconnectsByDefault(t *testing.T) {
	root, url := served(t, true, 0)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "nfs+rdma://"), "/export")
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for cut := int64(1 << 20); ; cut = 1 << 40 { // only the first connection ends
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", host)
			if err != nil {
				a.Close()
				return
			}
			wg.Go(func() { _, _ = io.CopyN(a, b, cut); a.Close(); b.Close() })
			wg.Go(func() { _, _ = io.CopyN(b, a, cut); a.Close(); b.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	src := filepath.Join(t.TempDir(), "file")
	data := fill(t, src, 5<<20)
	far := strings.Replace(url, host, l.Addr().String(), 1)
	mustRun(t, "cp", src, far)
	sameFile(t, filepath.Join(root, "file"), data)
}
