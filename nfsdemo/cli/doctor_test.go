package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport"
)

// TestDoctor: the command prints what it found, and its status says who is in the way.
func TestDoctor(t *testing.T) {
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{}})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	at := addrOf(s.rdma) + "/?mountport=" + mount
	if r := command(t.Context(), "", "doctor", "--server-only", at); r.status != exitOK || !strings.Contains(r.stdout, "\n  mount -t nfs -o vers=3,rdma,port=") || !strings.Contains(r.stdout, ",mountport="+mount+",") || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	r := command(t.Context(), "", "doctor", "--server-only", "--json", strings.Replace(at, "/?", "/none?", 1))
	var out doctorJSON
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.status != exitFailed || len(out.Results) != 7 || out.Results[5].State != "failed" || out.Results[5].Fix == "" || out.Mount != "" || r.stderr != "" {
		t.Errorf("%+v %v", r, err)
	}
	for _, tt := range []struct{ arg, want string }{
		{"nfs://127.0.0.1/x", "use nfs+rdma://127.0.0.1/x"}, {"ftp://x", "nfs+rdma://"}, {"host:99999", "port"},
	} {
		if r := command(t.Context(), "", "doctor", tt.arg); r.status != exitUsage || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%s: %+v", tt.arg, r)
		}
	}
	for arg, want := range map[string]string{"host": "host:20049", "::1": "[::1]:20049", "[::1]:5": "[::1]:5", "host:7/x": "host:7"} {
		if u, err := doctorURL(arg, false, false); err != nil || u.Addr() != want {
			t.Errorf("%s: %v, %v", arg, u, err)
		}
	}
	if exitStatus(errMachine) != exitMachine || exitStatus(errReported) != exitFailed {
		t.Error("the statuses are not told apart")
	}
}

// TestDoctorOwnServer: a server of this machine is asked for its own problems, by the user who may.
func TestDoctorOwnServer(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	t.Setenv("STATE_DIRECTORY", state)
	lost := filepath.Join(dir, "lost")
	s := started(t, &serviceConfig{
		exports: append(one(dir), one(lost)...), state: state, rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{},
	})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	look := func(want string) {
		t.Helper()
		r := command(t.Context(), "", "doctor", "--server-only", addrOf(s.rdma)+"/?mountport="+mount)
		if r.status != exitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	look("warning  server     " + lost + ": no such directory: make it first\n")
	if _, err := s.unexport(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	look("ok       server     the server of this machine has no problems\n")
}

// TestDoctorNames: the server names its exports. What it names does not act on the terminal, and is no line of its own.
func TestDoctorNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\x1b[2J\nok       port")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("this system has no such names of directories: ", err)
	}
	s := started(t, &serviceConfig{exports: one(dir), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{}})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	for _, path := range []string{"/", "/none"} {
		r := command(t.Context(), "", "doctor", "--server-only", addrOf(s.rdma)+path+"?mountport="+mount)
		if strings.Contains(r.stdout, "\x1b") || strings.Contains(r.stdout, "\nok       port\n") || strings.Contains(r.stdout, "mount -t") || !strings.Contains(r.stdout, "a?[2J?ok") {
			t.Errorf("%q", r.stdout)
		}
	}
	r := command(t.Context(), "", "ls", "nfs+rdma://"+addrOf(s.rdma)+"/none?mountport="+mount)
	if r.status != exitFailed || strings.Contains(r.stderr, "\x1b") || !strings.Contains(r.stderr, "a?[2J") {
		t.Errorf("%+v", r)
	}
}
