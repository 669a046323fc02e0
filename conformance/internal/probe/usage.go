package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
)

// Usage is what a process uses.
type Usage struct {
	Memory      int64 // octets, resident
	Descriptors int
	Threads     int
	Goroutines  int // 0: not known
}

// UsageOf returns the usage of a process of this machine, from /proc.
func UsageOf(pid int) (u Usage, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.Fields(value + " 0")[0])
		switch name {
		case "VmRSS":
			u.Memory = int64(n) << 10 // it says kB
		case "Threads":
			u.Threads = n
		}
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	u.Descriptors = len(fds)
	return u, err
}

// What a process may use more after the probe than before it. Runtimes and kernels keep threads, and memory that
// was used once, for later.
const (
	moreMemory      = 128 << 20
	moreDescriptors = 4
	moreThreads     = 64
	moreGoroutines  = 8
)

// errGrown says that a process uses more than it may.
var errGrown = errors.New("more than before the probe")

// within returns an error unless u is about what was used before.
func (u Usage) within(before Usage) error {
	for _, r := range []struct {
		what            string
		was, is, margin int64
	}{
		{"octets of memory", before.Memory, u.Memory, moreMemory},
		{"descriptors", int64(before.Descriptors), int64(u.Descriptors), moreDescriptors},
		{"threads", int64(before.Threads), int64(u.Threads), moreThreads},
		{"goroutines", int64(before.Goroutines), int64(u.Goroutines), moreGoroutines},
	} {
		if r.is > r.was+r.margin {
			return fmt.Errorf("%w: %d %s, before: %d", errGrown, r.is, r.what, r.was)
		}
	}
	return nil
}

// resources is the case that compares what the peer uses after all others with what it used before.
func (p *Prober) resources() extra {
	return extra{Case{
		Name: "resources/after", Rule: "docs/probe.md",
		Sends: "nothing: what the server's process uses after all cases", Wants: "as much as before",
	}, func(ctx context.Context, r *Result) (func(), error) {
		t := Try{Answer: "as before", Verdict: cases.OK.String()}
		var err error
		var now Usage
		for stop := time.Now().Add(p.timeout()); ; time.Sleep(50 * time.Millisecond) { // connections end later than at once
			if now, err = p.Usage(); err == nil {
				err = now.within(p.before)
			}
			if err == nil || time.Now().After(stop) || ctx.Err() != nil {
				break
			}
		}
		t.Did = fmt.Sprintf("uses %d MiB, %d descriptors, %d threads; before: %d MiB, %d, %d",
			now.Memory>>20, now.Descriptors, now.Threads, p.before.Memory>>20, p.before.Descriptors, p.before.Threads)
		if err != nil {
			t.Answer, t.Verdict, t.Why = "grown", cases.Fails.String(), err.Error()
		}
		r.Tries = append(r.Tries, t)
		return func() {}, nil
	}}
}
