package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// startProxy runs a proxy in this process, and returns its port file and what it prints.
func startProxy(t *testing.T, args ...string) (ports map[string]string, out *lines) {
	t.Helper()
	return startProxyOver(t, nil, args...)
}

// startProxyOver is startProxy over cards, unless c is nil.
func startProxyOver(t *testing.T, c *Card, args ...string) (ports map[string]string, out *lines) {
	t.Helper()
	out = new(lines)
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &app{card: c, stdin: strings.NewReader(""), stdout: out, stderr: out, hard: t.Context()}
	file := filepath.Join(t.TempDir(), "ports")
	done := make(chan int)
	go func() { done <- a.run(ctx, append([]string{"proxy", "--port-file", file}, args...)) }()
	t.Cleanup(func() {
		cancel(&interruptError{os.Interrupt})
		if status := <-done; status != exitOK {
			t.Errorf("status %d: %s", status, out)
		}
	})
	return portsOf(t, file, out), out
}

// portsOf waits for the port file of a server that prints to out.
func portsOf(t *testing.T, file string, out *lines) map[string]string {
	t.Helper()
	ports := make(map[string]string)
	eventually(t, func() bool {
		text, err := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			ports[key] = value
		}
		return err == nil
	}, "the proxy is not ready", out)
	return ports
}

// TestProxyStatus: a proxy whose server is not there says so everywhere: when it starts, to clients, and
// in its status.
func TestProxyStatus(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	_ = l.Close() // nobody is there
	ports, out := startProxy(t, "--to", "nfs://"+addr, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0")
	if s := out.String(); !strings.Contains(s, `level=WARN msg="backend lost" backend=nfs://`+addr) || !strings.Contains(s, "the server cannot be reached yet (dial tcp") {
		t.Error(s)
	}
	url := "http://" + ports["STATUS"]
	if b := get(t, url+"/readyz", http.StatusServiceUnavailable); !strings.Contains(string(b), "cannot be used: dial tcp "+addr) {
		t.Errorf("%s", b)
	}
	if r := command(t.Context(), "", "ls", "nfs+rdma://"+ports["RDMA"]+"/x"); r.status != exitFailed || !strings.Contains(r.stderr, "MNT3ERR_SERVERFAULT") {
		t.Errorf("%+v", r)
	}
	var st ops.Report
	if err := json.Unmarshal(get(t, url+"/status", http.StatusOK), &st); err != nil || st.Kind != "proxy" || len(st.Problems) != 1 || st.Ready == "" || st.Transport.Calls == 0 {
		t.Errorf("%+v %v", st, err)
	}
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	for _, want := range []string{"nfsdemo_ready 0", "nfsdemo_proxy_clients_total 1", "nfsdemo_proxy_failed_total 1"} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// TestProxyReady: with its server, a proxy is ready. A server that is none for NFS is not taken for one.
func TestProxyReady(t *testing.T) {
	dir := t.TempDir()
	s := started(t, &serviceConfig{exports: one(dir), tcp: "127.0.0.1:0", config: &transport.Config{}})
	ports, _ := startProxy(t, "--to", "nfs://"+addrOf(s.tcp), "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0")
	if b := get(t, "http://"+ports["STATUS"]+"/readyz", http.StatusOK); string(b) != "ready\n" {
		t.Errorf("%s", b)
	}
	other := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		resp.Stat = 1 // PROG_UNAVAIL
	})}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go other.ServeStream(l)
	t.Cleanup(func() { _ = other.Close() })
	ports, _ = startProxy(t, "--to", "nfs://"+l.Addr().String(), "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0")
	if b := get(t, "http://"+ports["STATUS"]+"/readyz", http.StatusServiceUnavailable); !strings.Contains(string(b), "does not serve NFS") {
		t.Errorf("%s", b)
	}
}

// stuck is a server that answers NULL, and no other call.
type stuck struct{ calls chan struct{} }

func (s stuck) ServeRPC(ctx context.Context, req *rpc.Request, _ *rpc.Response) {
	if req.Proc != 0 {
		s.calls <- struct{}{}
		<-ctx.Done()
	}
}

func (stuck) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Blocks: req.Proc != 0}
}

// TestProxySecondSignal: a proxy waits for a call that its server does not answer; at the second signal it
// ends at once, and says that the call was aborted.
func TestProxySecondSignal(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	h := stuck{make(chan struct{}, 10)}
	server := &transport.Server{Handler: h}
	go server.ServeStream(l)
	t.Cleanup(func() { _ = server.Close() })
	soft, cancelSoft := context.WithCancelCause(t.Context())
	hard, cancelHard := context.WithCancelCause(t.Context())
	out := new(lines)
	a := &app{stdin: strings.NewReader(""), stdout: out, stderr: out, hard: hard}
	file := filepath.Join(t.TempDir(), "ports")
	done := make(chan int)
	go func() {
		done <- a.run(soft, []string{"proxy", "--port-file", file, "--to", "nfs://" + l.Addr().String(), "--listen", "127.0.0.1:0"})
	}()
	ports := portsOf(t, file, out)
	listed := make(chan struct{})
	patient, leave := context.WithCancel(t.Context()) // the client does not leave first
	go func() {
		command(patient, "", "ls", "--timeout", "1m", "nfs+rdma://"+ports["RDMA"]+"/x")
		close(listed)
	}()
	<-h.calls
	cancelSoft(&interruptError{os.Interrupt})
	select {
	case status := <-done:
		t.Fatalf("the proxy has not waited: status %d: %s", status, out)
	case <-time.After(100 * time.Millisecond):
	}
	cancelHard(&interruptError{os.Interrupt})
	if status := <-done; status != exitFailed || !strings.Contains(out.String(), "calls were aborted: "+l.Addr().String()+" had not answered 1 call") {
		t.Errorf("status %d: %s", status, out)
	}
	leave()
	<-listed
}
