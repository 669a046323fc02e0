package measure

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ProcessUsage returns what the threads of a process have used, from /proc/PID/task. Threads that
// have ended do not count, so it is for processes that keep theirs. Errors: there is no such process,
// and, on systems other than Linux, errors.ErrUnsupported.
func ProcessUsage(pid int) (u Usage, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return u, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	for _, t := range tasks {
		if err := u.add(t); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
	}
	return u, nil
}

// add adds what a thread has used. Only schedstat counts time in ns: stat counts ticks.
func (u *Usage) add(task string) error {
	stat, err := os.ReadFile(filepath.Join(task, "schedstat"))
	if err != nil {
		return err
	}
	ns, _, _ := bytes.Cut(stat, []byte(" "))
	n, err := strconv.ParseInt(string(ns), 10, 64)
	if err != nil {
		return err
	}
	status, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return err
	}
	u.CPU += time.Duration(n)
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.HasSuffix(name, []byte("voluntary_ctxt_switches")) { // nonvoluntary ones too
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil {
			return err
		}
		u.Switches += n
	}
	return nil
}
