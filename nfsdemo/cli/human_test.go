package cli_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func TestOctets(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 10239: "10239", 10240: "10.0 KiB", 1 << 20: "1.00 MiB", 1<<20 - 1: "1.00 MiB",
		64 << 20: "64.0 MiB", 300 << 30: "300 GiB", 1 << 63: "8 EiB", 1 << 50: "1.00 PiB",
	} {
		if got := cli.Octets(n); got != want {
			t.Errorf("octets(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestModeString(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644:                             "-rw-r--r--",
		0o755 | fs.ModeDir:                "drwxr-xr-x",
		0o777 | fs.ModeSymlink:            "lrwxrwxrwx",
		0o755 | fs.ModeSetuid:             "-rwsr-xr-x",
		0o644 | fs.ModeSetgid:             "-rw-r-Sr--",
		0o1 | fs.ModeSticky:               "---------t",
		fs.ModeSticky:                     "---------T",
		fs.ModeNamedPipe:                  "p---------",
		fs.ModeSocket:                     "s---------",
		fs.ModeDevice:                     "b---------",
		fs.ModeDevice | fs.ModeCharDevice: "c---------",
	} {
		if got := cli.ModeString(m); got != want {
			t.Errorf("modeString(%v) = %q, want %q", m, got, want)
		}
	}
}

func TestListTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"Nov  1 08:05": time.Date(2026, 11, 1, 8, 5, 0, 0, time.UTC),
		"Nov  1  2025": time.Date(2025, 11, 1, 8, 5, 0, 0, time.UTC),
		"Nov 21  2030": time.Date(2030, 11, 21, 8, 5, 0, 0, time.UTC),
	} {
		if got := cli.ListTime(at, now); got != want {
			t.Errorf("listTime(%v) = %q, want %q", at, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Microsecond: "40 us", 2500 * time.Microsecond: "2.5 ms",
		320 * time.Millisecond: "320 ms", 1500 * time.Millisecond: "1.50 s",
	} {
		if got := cli.Duration(d); got != want {
			t.Errorf("duration(%v) = %q, want %q", d, got, want)
		}
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

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
