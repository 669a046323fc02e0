package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
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
			got := ""
			for _, p := range [...]struct{ prog, vers uint32 }{
				{nfs3.Program, nfs3.Version},
				{mount3.Program, mount3.Version},
				{lockd.NLMProgram, lockd.Version4},
				{lockd.NLMProgram, lockd.Version1},
				{lockd.NSMProgram, lockd.NSMVersion},
				{rpcbind.Program, 3},
				{push.Program, push.Version},
				{replies.Program, 1},
				{400_000, 1},
			} {
				for proc := range uint32(24) {
					if a := says(s.srv.Handler, p.prog, p.vers, proc); a != "" {
						got += fmt.Sprintf("%d %d %d:%s\n", p.prog, p.vers, proc, a)
					}
				}
			}
			want := traitsOfNFS
			if name == "push" || name == "all" {
				want += traitsOfPush
			}
			if got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

// What the service says about calls without arguments, by program, version and procedure.
const (
	traitsOfNFS = `100003 3 2: blocks once
100003 3 6: blocks
100003 3 7: blocks once lazy
100003 3 8: blocks once
100003 3 9: blocks once
100003 3 10: blocks once
100003 3 11: blocks once
100003 3 12: blocks once
100003 3 13: blocks once
100003 3 14: blocks once
100003 3 15: blocks once
100003 3 16: blocks
100003 3 17: blocks
100003 3 21: blocks
100005 3 1: blocks
`
	traitsOfPush = `544437351 1 1: blocks once
544437351 1 2: blocks
544437351 1 3: blocks
544437351 1 5: blocks
544437351 1 6: blocks
`
)

// says returns what a handler says about a call.
func says(h rpc.Handler, prog, vers, proc uint32) (s string) {
	req := &rpc.Request{}
	req.Prog, req.Vers, req.Proc = prog, vers, proc
	t := rpc.Describe(h, req)
	if t.Blocks {
		s += " blocks"
	}
	if t.Once {
		s += " once"
	}
	if t.Lazy {
		s += " lazy"
	}
	return s
}

// started starts a service as serve does. It ends with the test.
func started(t testing.TB, cfg *serviceConfig) *service {
	t.Helper()
	if cfg.state == "" && !cfg.memory && cfg.volume == nil {
		cfg.state = filepath.Join(t.TempDir(), "state") // else what other tests leave is this one's
	}
	if cfg.push.dir != "" {
		noErr(t, cfg.push.check(cfg))
	}
	s := must(newService(t.Context(), cfg))(t)
	t.Cleanup(func() {
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}
