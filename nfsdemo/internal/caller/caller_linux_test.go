package caller_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"golang.org/x/sys/unix"
)

// abortEnv makes the test binary the process that must end.
const abortEnv = "CALLER_TEST_ABORT"

func TestMain(m *testing.M) {
	if os.Getenv(abortEnv) != "" {
		loseWay()
	}
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], mappedArg) {
		mapped(strings.TrimPrefix(os.Args[1], mappedArg))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newSwitcher(t *testing.T) *caller.Switcher {
	t.Helper()
	sw, err := caller.New()
	if errors.Is(err, caller.ErrCannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sw
}

// ids are the lines of a thread's status that the kernel decides by, without CAP_SYS_RESOURCE: a thread at rest has
// it or not.
func ids(status []byte) string {
	var out []string
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		switch f[0] {
		case "Uid:", "Gid:":
			out = append(out, f[len(f)-1])
		case "Groups:":
			out = append(out, "["+strings.Join(f[1:], " ")+"]")
		case "CapEff:":
			eff, _ := strconv.ParseUint(f[1], 16, 64)
			out = append(out, fmt.Sprintf("%x", eff&^(1<<unix.CAP_SYS_RESOURCE)))
		}
	}
	return strings.Join(out, " ")
}

// me returns the ids of this thread.
func me(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread() // else the thread may be another's by the time its file is read
	defer runtime.UnlockOSThread()
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Error(err)
	}
	return ids(b)
}

// nobodyLeft fails the test if a thread of the process is not the process's.
func nobodyLeft(t *testing.T, want string) {
	t.Helper()
	list, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if got := ids(b); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// TestDo: the ids are those asked for, without the capabilities of files, and back afterwards.
func TestDo(t *testing.T) {
	sw := newSwitcher(t)
	own := me(t)
	for _, c := range []struct {
		id   caller.Identity
		want string // of uid, gid and groups
	}{
		{caller.Identity{UID: 1000, GID: 1001}, "1000 1001 []"},
		{caller.Identity{UID: 1000, GID: 1001, Groups: []uint32{5, 6}}, "1000 1001 [5 6]"},
		{caller.Identity{UID: 65534, GID: 0, Groups: []uint32{0}}, "65534 0 [0]"},
		{caller.Identity{UID: 4294967294, GID: 4294967294}, "4294967294 4294967294 []"},
	} {
		failed := errors.New("failed")
		var got string
		if err := sw.Do(&c.id, func() error { got = me(t); return failed }); !errors.Is(err, failed) {
			t.Errorf("%+v: %v", c.id, err)
		}
		head, capEff, _ := strings.Cut(got, "] ")
		if head+"]" != c.want {
			t.Errorf("%+v: %s", c.id, got)
		}
		var eff uint64
		if _, err := fmt.Sscanf(capEff, "%x", &eff); err != nil {
			t.Fatal(capEff, err)
		}
		for _, bit := range []int{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID, unix.CAP_MKNOD, unix.CAP_LINUX_IMMUTABLE} {
			if eff>>bit&1 != 0 {
				t.Errorf("%+v: capability %d is effective", c.id, bit)
			}
		}
		nobodyLeft(t, own)
	}
}

// TestReserve: root has CAP_SYS_RESOURCE on every thread, also on one that has acted as a user before, and users
// have it on none.
func TestReserve(t *testing.T) {
	sw := newSwitcher(t)
	has := func() bool {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var c [2]unix.CapUserData
		if err := unix.Capget(&hdr, &c[0]); err != nil {
			t.Fatal(err)
		}
		return c[0].Effective>>unix.CAP_SYS_RESOURCE&1 != 0
	}
	if !has() {
		t.Skip("this process may not take reserved blocks itself")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 20 {
		id := &caller.Identity{UID: uint32(i * 7 % 3), GID: uint32(i * 5 % 2)}
		do := [...]func(*caller.Identity, func() error) error{sw.Do, sw.DoUser, sw.Limited, sw.Override}[i%4]
		_ = do(id, func() error {
			if has() != (id.UID == 0) {
				t.Errorf("%d: uid %d, CAP_SYS_RESOURCE %v", i, id.UID, has())
			}
			return nil
		})
	}
}

// TestDoUser: the uid and the capabilities are the caller's, the groups the process's.
func TestDoUser(t *testing.T) {
	sw := newSwitcher(t)
	own := me(t)
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Trim(fmt.Sprint(groups), "[]")
	want := fmt.Sprintf("1000 %d [%s]", os.Getegid(), list)
	var user, all string
	id := &caller.Identity{UID: 1000, GID: 1001, Groups: []uint32{5, 6}}
	_ = sw.Do(id, func() error { all = me(t); return nil })
	if err := sw.DoUser(id, func() error { user = me(t); return nil }); err != nil {
		t.Fatal(err)
	}
	head, caps, _ := strings.Cut(user, "] ")
	if _, full, _ := strings.Cut(all, "] "); head+"]" != want || caps != full {
		t.Errorf("%q, want %q; capabilities %s, with Do %s", head+"]", want, caps, full)
	}
	nobodyLeft(t, own)
}

// TestNone: the ids that mean "no change" would leave root root.
func TestNone(t *testing.T) {
	sw := newSwitcher(t)
	own := me(t)
	for _, id := range []caller.Identity{{UID: caller.None, GID: 1}, {UID: 1, GID: caller.None}, {UID: 1, GID: 1, Groups: []uint32{2, caller.None}}} {
		for _, do := range []func(*caller.Identity, func() error) error{sw.Do, sw.Override} {
			err := do(&id, func() error { t.Errorf("%+v ran", id); return nil })
			if !errors.Is(err, caller.ErrRefused) {
				t.Errorf("%+v: %v", id, err)
			}
		}
	}
	nobodyLeft(t, own)
}

// mappedArg makes the test binary one that starts itself in a user namespace with these ids, or, without ids, is there.
const mappedArg = "-mapped="

func mapped(ids string) {
	if ids != "" {
		cmd := exec.Command("/proc/self/exe", mappedArg)
		var m []syscall.SysProcIDMap
		for id := range strings.SplitSeq(ids, ",") {
			n, _ := strconv.Atoi(id) // the test's
			m = append(m, syscall.SysProcIDMap{ContainerID: n, HostID: n, Size: 1})
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: m, GidMappings: m, GidMappingsEnableSetgroups: true}
		out, err := cmd.CombinedOutput()
		fmt.Println(string(out), err)
		return
	}
	sw, err := caller.New()
	fmt.Println("cannot", errors.Is(err, caller.ErrCannot), "switcher", sw != nil)
	if sw != nil {
		err := sw.Do(&caller.Identity{UID: 1000, GID: 1000}, func() error { return nil })
		fmt.Println("refused", errors.Is(err, caller.ErrRefused))
	}
}

// TestUserNamespace: where the process cannot get its own identity back it does not act as others; where it can, ids that
// are not mapped are refused, and the process goes on.
func TestUserNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("maps ids: for root")
	}
	for _, c := range []struct {
		ids   string
		group uint32 // of the process
		want  string
	}{
		{"0", 0, "cannot true switcher false"},
		{"0,65534", 0, "cannot false switcher true\nrefused true"},
		{"0", 5000, "cannot true switcher false"}, // the kernel shows it as 65534, and does not take that back
	} {
		cmd := exec.Command("/proc/self/exe", mappedArg+c.ids)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{c.group}}}
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "operation not permitted") {
			t.Skipf("no user namespaces here: %s", out)
		}
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want+"\n <nil>" {
			t.Errorf("ids %s, group %d: %v, %q, want %q", c.ids, c.group, err, got, c.want)
		}
	}
}

// TestPermissions: the kernel decides as for that user, and as for the owner with Override.
func TestPermissions(t *testing.T) {
	sw := newSwitcher(t)
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o000); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	file, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	openIt := func() error {
		fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", file), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	ann := &caller.Identity{UID: 1000, GID: 1000}
	if err := sw.Do(ann, openIt); !errors.Is(err, unix.EACCES) {
		t.Errorf("Do: %v", err)
	}
	if err := sw.Override(ann, openIt); err != nil {
		t.Errorf("Override: %v", err)
	}
	if err := sw.Do(&caller.Identity{}, openIt); err != nil {
		t.Errorf("Do as root: %v", err)
	}
}

// TestPanic: the thread of a function that panics is the process's again.
func TestPanic(t *testing.T) {
	sw := newSwitcher(t)
	own := me(t)
	func() {
		defer func() {
			if recover() != "oops" {
				t.Error("no panic")
			}
			if got := me(t); got != own {
				t.Errorf("recovered as %s", got)
			}
		}()
		_ = sw.Do(&caller.Identity{UID: 7, GID: 8, Groups: []uint32{9}}, func() error { panic("oops") })
	}()
	nobodyLeft(t, own)
}

// TestMany: users at the same time, root between them, threads that start meanwhile, and blocked ones.
func TestMany(t *testing.T) {
	sw := newSwitcher(t)
	own := me(t)
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			id := &caller.Identity{UID: uint32(1000 + i%8), GID: uint32(2000 + i%8), Groups: []uint32{uint32(i % 8)}}
			want := fmt.Sprintf("%d %d [%d] ", id.UID, id.GID, i%8)
			for range 50 {
				_ = sw.Do(id, func() error {
					if got := me(t); !strings.HasPrefix(got, want) {
						t.Errorf("%s, want %s", got, want)
					}
					return nil
				})
				runtime.LockOSThread() // a thread that me has opened may act for another user when me reads it
				if got := me(t); got != own {
					t.Errorf("%s, want the own %s", got, own)
				}
				runtime.UnlockOSThread()
			}
			// Blocked as a user, so that the runtime starts threads for the others.
			_ = sw.Do(id, func() error {
				_, err := unix.Read(pipe[0], make([]byte, 1))
				return err
			})
		})
	}
	for range 200 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if got := me(t); got != own {
				t.Errorf("a new thread is %s", got)
			}
		})
	}
	if _, err := unix.Write(pipe[1], bytes.Repeat([]byte{1}, 32)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	nobodyLeft(t, own)
}

// TestAbort: a thread that cannot be restored ends the process, even if somebody recovers.
func TestAbort(t *testing.T) {
	newSwitcher(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), abortEnv+"=1")
	out, err := cmd.CombinedOutput()
	if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.ExitCode() != 134 || !bytes.Contains(out, []byte("could not get its own identity back")) {
		t.Errorf("%v: %s", err, out)
	}
}

// loseWay gives up, inside Do, the capabilities that the way back needs.
func loseWay() {
	defer func() {
		_ = recover()
		os.Exit(0) // must not be reached
	}()
	sw, err := caller.New()
	if err != nil {
		panic(err)
	}
	_ = sw.Do(&caller.Identity{UID: 1000, GID: 1000, Groups: []uint32{5}}, func() error {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			return err
		}
		panic("recovered above")
	})
}

// TestNoAlloc: the switch is on the path of every call.
func TestNoAlloc(t *testing.T) {
	sw := newSwitcher(t)
	id := &caller.Identity{UID: 1000, GID: 1000, Groups: []uint32{1, 2, 3}}
	var uid int
	if n := testing.AllocsPerRun(100, func() {
		_ = sw.Do(id, func() error { uid = syscall.Getuid(); return nil })
		_ = sw.DoUser(id, func() error { uid = syscall.Getuid(); return nil })
		_ = sw.Limited(id, func() error { uid = syscall.Getuid(); return nil })
	}); n != 0 {
		t.Errorf("%v allocations (uid %d)", n, uid)
	}
}
