package ops_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"golang.org/x/sys/unix"
)

// TestDoctorPort: a server that wants a port below 1024, as exports do unless they say insecure, is asked from one by root.
// Others are told that they cannot know, and nothing has failed.
func TestDoctorPort(t *testing.T) {
	s, err := server.New(&server.Config{Exports: []server.Export{{Path: "/srv/data", FS: mem.New(nil), Squash: server.SquashNone, Secure: true}}})
	noErr(t, err)
	u, err := nfsclient.ParseURL("nfs+rdma://127.0.0.1:" + strconv.Itoa(serve(t, s, nil, rdma)) + "/srv/data?mountport=" + strconv.Itoa(serve(t, s, nil, tcp)))
	noErr(t, err)
	run := func(export, files ops.State, detail string) {
		t.Helper()
		list := ops.Run(t.Context(), ops.Config{URL: u}).Results
		if e, f := list[5], list[6]; e.State != export || f.State != files || !strings.Contains(e.Detail, detail) {
			t.Errorf("%+v, %+v", e, f)
		}
	}
	if os.Geteuid() == 0 {
		run(ops.OK, ops.OK, "can be mounted")
		runtime.LockOSThread() // and ends with it
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); e != 0 {
			t.Fatal(e)
		}
		defer unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
	}
	run(ops.Warning, ops.Skipped, "refuses /srv/data to a port of 1024 or above (MNT3ERR_ACCES)")
}
