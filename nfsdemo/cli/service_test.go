package cli

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestHandlers: however many handlers are in front of the NFS handler, what it says about calls
// reaches the transport.
func TestHandlers(t *testing.T) {
	for name, change := range map[string]func(c *serviceConfig, dir string){
		"plain":   func(*serviceConfig, string) {},
		"push":    func(c *serviceConfig, dir string) { c.push = pushConfig{dir: filepath.Join(dir, "push")} },
		"replies": func(c *serviceConfig, _ string) { c.replies = "127.0.0.1:0" },
		"all": func(c *serviceConfig, dir string) {
			c.push = pushConfig{dir: filepath.Join(dir, "push")}
			c.replies = "127.0.0.1:0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", config: &transport.Config{}}
			change(cfg, t.TempDir())
			s := started(t, cfg)
			says := func(says func(rpc.Handler, uint32, uint32, uint32) bool, proc nfs3.Proc) bool {
				return says(s.srv.Handler, nfs3.Program, nfs3.Version, uint32(proc))
			}
			if !says(rpc.Lazy, nfs3.ProcWrite) || says(rpc.Lazy, nfs3.ProcRemove) {
				t.Error("Lazy")
			}
			if !says(rpc.NonIdempotent, nfs3.ProcRemove) || says(rpc.NonIdempotent, nfs3.ProcRead) {
				t.Error("NonIdempotent")
			}
			if !says(rpc.MayBlock, nfs3.ProcWrite) || says(rpc.MayBlock, nfs3.ProcNull) {
				t.Error("MayBlock")
			}
		})
	}
}

// started starts a service as serve does. It ends with the test.
func started(t testing.TB, cfg *serviceConfig) *service {
	t.Helper()
	if cfg.push.dir != "" {
		if err := cfg.push.check(cfg); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}
