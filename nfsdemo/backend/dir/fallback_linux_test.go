package dir_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// fallbackEnv makes the test binary a server of this directory, which says what it can do.
const fallbackEnv = "DIR_TEST_FALLBACK"

func init() {
	if path := os.Getenv(fallbackEnv); path != "" {
		unix.Umask(0)
		if err := tell(path); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
}

// tell says who decides, whose a file is that bob makes, whether bob reads another's file, and whether a handle
// outlives the FS.
func tell(path string) error {
	var h []byte
	for life := range 2 {
		f, err := dir.New(path, &dir.Config{Async: true, Key: secret})
		if err != nil {
			return err
		}
		defer f.Close()
		if life == 1 {
			_, err = f.Resolve(nil, h)
			fmt.Println("handle", err)
			return err
		}
		fmt.Println(f.Authority())
		n, a, err := f.Root().As(bob).Create("f", in644)
		if err != nil {
			return err
		}
		h = n.AppendHandle(nil)
		fmt.Println("owner", a.UID)
		other, _, err := f.Root().As(bob).Lookup("other")
		if err != nil {
			return err
		}
		_, err = other.Read(make([]byte, 1), 0)
		fmt.Println("read", err)
		if _, err := n.Write([]byte("x"), 0, nfs3.Unstable); err != nil {
			return err
		}
	}
	return nil
}

// TestFallback: what a process does that lacks some of root's capabilities, and where the file system has no handles.
func TestFallback(t *testing.T) {
	const (
		caller   = "the kernel decides as for the caller"
		own      = "every caller is uid %d, the user of this process"
		kernel   = "handles are those of the file system\n"
		byPaths  = "handles are those of the file system, confined by paths (no CAP_SYS_ADMIN)\n"
		searched = "handles are found again by a search"
		ann      = "--reuid=1000 --regid=1000 --clear-groups"
	)
	for name, c := range map[string]struct {
		setpriv      string
		overlay      bool
		who, handles string
		owner        int
		read         error
	}{
		"root":                   {"", false, caller, kernel, 1001, nfs3.ErrAcces},
		"no CAP_DAC_READ_SEARCH": {"--bounding-set=-dac_read_search", false, caller, searched + " (no CAP_DAC_READ_SEARCH)", 1001, nfs3.ErrAcces},
		"no CAP_SYS_ADMIN":       {"--bounding-set=-sys_admin", false, caller, byPaths, 1001, nfs3.ErrAcces},
		"no CAP_SETUID":          {"--bounding-set=-setuid", false, fmt.Sprintf(own, 0), kernel, 0, nil},
		"no CAP_SYS_RESOURCE":    {"--bounding-set=-sys_resource", false, caller, kernel, 1001, nfs3.ErrAcces},
		"a user":                 {ann, false, fmt.Sprintf(own, 1000), searched, 1000, nfs3.ErrAcces},
		"a user with three capabilities": {
			ann + " --inh-caps=+setuid,+setgid,+dac_read_search --ambient-caps=+setuid,+setgid,+dac_read_search", false,
			caller, byPaths, 1001, nfs3.ErrAcces,
		},
		"overlayfs": {"", true, caller, searched + " (the file system has none", 1001, nfs3.ErrAcces},
	} {
		t.Run(name, func(t *testing.T) {
			m := backendtest.Mount(t, "tmpfs", 0)
			at := filepath.Join(m.At, "export")
			ok(t, os.Mkdir(at, 0o777))
			ok(t, os.Chmod(at, 0o777))
			if c.overlay {
				var opts []string
				for _, d := range []string{"lowerdir", "upperdir", "workdir"} {
					p := filepath.Join(m.At, d)
					ok(t, os.Mkdir(p, 0o777))
					ok(t, os.Chmod(p, 0o777))
					opts = append(opts, d+"="+p)
				}
				if err := unix.Mount("overlay", at, "overlay", 0, strings.Join(opts, ",")); err != nil {
					t.Skip("no overlayfs here: ", err)
				}
				defer unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // what is below it goes with the test
			}
			ok(t, os.WriteFile(at+"/other", []byte("x"), 0o600))
			ok(t, os.Chown(at+"/other", 1002, 1002))
			exe := filepath.Join(m.At, "dir.test") // where users can reach it
			copyFile(t, "/proc/self/exe", exe)
			cmd := exec.Command("setpriv", append(strings.Fields(c.setpriv), exe)...)
			cmd.Env = append(os.Environ(), fallbackEnv+"="+at)
			b, err := cmd.CombinedOutput()
			if errors.Is(err, exec.ErrNotFound) {
				t.Skip("no setpriv (util-linux)")
			}
			got := string(b)
			rest := fmt.Sprintf("owner %d\nread %v\nhandle <nil>\n", c.owner, c.read)
			if err != nil || !strings.HasPrefix(got, c.who) || !strings.Contains(got, "; "+c.handles) || !strings.HasSuffix(got, rest) {
				t.Errorf("%v: %s\nwant %s; %s\n%s", err, got, c.who, c.handles, rest)
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	ok(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	ok(t, err)
	_, err = io.Copy(out, in)
	ok(t, errors.Join(err, out.Close()))
}
