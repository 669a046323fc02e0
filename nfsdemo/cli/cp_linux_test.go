package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

	"github.com/stag-rdma/stag/nfsdemo/cli"
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
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if parts, _ := filepath.Glob(filepath.Join(x.dir, "*.part")); len(parts) > 1 {
				if st, err := os.Stat(parts[0]); err == nil && st.Size() > 1<<20 {
					break
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("no parts: %s", errs.String())
			}
		}
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
	status := cli.Main(append(append([]string{"cp", "-r"}, slow...), src, url), strings.NewReader(""), io.Discard, tty)
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
