package rdmaptest_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// stub is a TB that remembers how the test failed.
type stub struct {
	rdmaptest.TB
	after  []func()
	failed []string
}

func (s *stub) Helper()          {}
func (s *stub) Name() string     { return "Test/part" }
func (s *stub) Cleanup(f func()) { s.after = append(s.after, f) }
func (s *stub) Errorf(format string, args ...any) {
	s.failed = append(s.failed, fmt.Sprintf(format, args...))
}

// Fatalf ends the function that during has called.
func (s *stub) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(s)
}

func (s *stub) end() {
	for i := range s.after {
		s.after[len(s.after)-1-i]()
	}
}

// echo answers one connection, and returns the address at which it listens.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// say sends words to addr and expects them back.
func say(t *testing.T, addr, words string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, len(words))
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != words {
		t.Fatalf("%q %v", got, err)
	}
}

// With STAG_RECORD there is a file with the recorded octets; without it there is none.
func TestRecorded(t *testing.T) {
	addr := echo(t)
	t.Setenv("STAG_RECORD", "")
	if got := rdmaptest.Recorded(&stub{}, "", addr); got != addr {
		t.Errorf("%s, want %s", got, addr)
	}
	dir := t.TempDir()
	t.Setenv("STAG_RECORD", dir)
	s := &stub{}
	at := rdmaptest.Recorded(s, "kit.", addr)
	if at == addr {
		t.Fatal("not recorded")
	}
	say(t, at, "what is said")
	s.end()
	files, err := filepath.Glob(filepath.Join(dir, "kit.Test_part.*.pcapng"))
	if err != nil || len(files) != 1 || len(s.failed) > 0 {
		t.Fatal(files, err, s.failed)
	}
	if b, err := os.ReadFile(files[0]); err != nil || bytes.Count(b, []byte("what is said")) != 2 {
		t.Errorf("%v: %q", err, b)
	}
}
