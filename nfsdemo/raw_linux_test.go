package main_test

import (
	"bufio"
	"bytes"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
)

// TestCallsAreRaw: no system call in the path of a READ, WRITE or GETATTR tells Go's scheduler, at either end (see package
// quick: one is enough to lose all that they gain). The runtime's own trace has each that does.
func TestCallsAreRaw(t *testing.T) {
	switch _, err := exec.LookPath("go"); {
	case err != nil:
		t.Skip("no go command, which reads the trace")
	case region.RaceDetector:
		t.Skip("then they are ordinary calls")
	case testing.Short():
		t.Skip("compiles a command of Go")
	}
	export, err := os.MkdirTemp("/dev/shm", "stag") //nolint:usetesting // elsewhere a write may have to wait
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(export) })
	fsys, err := dir.New(export, nil)
	noErr(t, err)
	defer fsys.Close()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/raw", FS: fsys, Squash: server.SquashNone}}})
	noErr(t, err)
	s := &transport.Server{Handler: h}
	defer s.Close()
	for scheme, serve := range map[string]func(net.Listener) error{"nfs+rdma": s.Serve, "nfs": s.ServeStream} {
		t.Run(scheme, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			noErr(t, err)
			go func() { _ = serve(l) }() // until the server closes
			u, err := nfsclient.ParseURL(scheme + "://" + l.Addr().String() + "/raw")
			noErr(t, err)
			testRaw(t, u)
		})
	}
}

func testRaw(t *testing.T, u *nfsclient.URL) {
	ctx := t.Context()
	c, err := nfsclient.Dial(ctx, u, nil)
	noErr(t, err)
	defer c.Close()
	newer, err := nfsclient.Dial(ctx, u, nil) // then a server looks whether the older connection was closed
	noErr(t, err)
	defer newer.Close()
	n, err := c.Create(ctx, c.Root(), "f", 0o600, false)
	noErr(t, err)
	const calls = 300
	data := noise(64 << 10)
	for _, row := range []struct {
		name string
		call func() error
	}{
		{"WRITE", func() error { _, _, err := c.WriteAt(ctx, n, data, 0, nfs3.Unstable); return err }},
		{"READ", func() error { _, err := c.ReadAt(ctx, n, data, 0); return err }},
		{"GETATTR", func() error { return c.Refresh(ctx, n) }},
	} {
		var events bytes.Buffer
		for i := range 2 * calls {
			if i == calls { // what is done once is done
				if err := trace.Start(&events); err != nil {
					t.Skip(err)
				}
			}
			noErr(t, row.call())
		}
		trace.Stop()
		sum, told := 0, syscalls(t, events.Bytes())
		maps.DeleteFunc(told, func(stack string, _ int) bool { // they come with time, not with calls
			return strings.Contains(stack, "reading.(*poller)")
		})
		for _, k := range told {
			sum += k
		}
		if sum > calls/10 {
			t.Errorf("%d calls of %s: %d ordinary system calls: %v", calls, row.name, sum, told)
		}
	}
}

// syscalls returns how many ordinary system calls a trace has of each stack: the function that makes it, and the two
// innermost ones of this module.
func syscalls(t *testing.T, events []byte) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	noErr(t, os.WriteFile(file, events, 0o600))
	cmd := exec.Command("go", "tool", "trace", "-d=parsed", file)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	noErr(t, err)
	told, within, stack := make(map[string]int), false, []string(nil)
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		line := s.Text()
		switch {
		case strings.HasPrefix(line, "M="):
			if within {
				told[strings.Join(stack, " < ")]++
			}
			within, stack = strings.Contains(line, "Running->Syscall"), nil
		case within && strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t\t"):
			if f, _, _ := strings.Cut(strings.TrimSpace(line), " @ "); len(stack) == 0 || strings.HasPrefix(f, module) && len(stack) < 3 {
				stack = append(stack, strings.TrimPrefix(f, module+"/"))
			}
		}
	}
	return told
}
