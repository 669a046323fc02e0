package cli

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
)

// repliesService pushes replies into logs of clients. A nil *repliesService does nothing.
type repliesService struct {
	pusher *replies.Pusher
	l      net.Listener
}

// openRepliesService opens the listener for the connections of logs, and returns a handler that
// pushes the replies of h. Without an address it returns nil and h.
func openRepliesService(ctx context.Context, cfg *serviceConfig, h rpc.Handler) (*repliesService, rpc.Handler, error) {
	if cfg.replies == "" {
		return nil, h, nil
	}
	l, err := cfg.sockets.listen(ctx, "replies", cfg.replies)
	if err != nil {
		return nil, nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := &replies.Pusher{
		Handler: h, Addr: ":" + port, TLS: cfg.tls.config(), Logger: cfg.config.Logger,
		MaxQueued: queuedReplies, MaxClients: replyLogs(cfg.config),
		Choose: func(prog, _, proc uint32) bool { return prog == nfs3.Program && !nfs3.Proc(proc).Idempotent() },
	}
	return &repliesService{pusher: p, l: allowed(cfg.capture.TapListener(l), cfg.config.Limits.Allow)}, p, nil
}

// queuedReplies are the octets in flight to one log: some 200 replies of NFS that change something. Those of all logs
// take at most a quarter of --memory-limit, whatever their clients do not acknowledge.
const queuedReplies = 64 << 10

// replyLogs returns how many logs there may be, at most 1024.
func replyLogs(cfg *transport.Config) int {
	return int(max(min(cmp.Or(cfg.Limits.Memory, transport.DefaultMemory)/4/queuedReplies, 1024), 8))
}

// serve serves the connections of logs.
func (r *repliesService) serve(s *service) {
	if r == nil {
		return
	}
	s.wg.Go(func() {
		if err := r.pusher.Serve(r.l); !errors.Is(err, replies.ErrClosed) {
			s.errs <- err
		}
	})
}

// close ends everything.
func (r *repliesService) close() error {
	if r == nil {
		return nil
	}
	_ = r.l.Close() // it may be closed already
	return r.pusher.Close()
}

// addr returns the address for the connections of logs.
func (r *repliesService) addr() string {
	if r == nil {
		return ""
	}
	return addrOf(r.l)
}

// replyLine is the line of the port file about reply logs.
func (r *readyJSON) replyLine() string {
	if r.Reply == "" {
		return ""
	}
	return "\nREPLIES=" + r.Reply
}

// checkReplies refuses combinations of --replies with other flags.
func (cfg *serviceConfig) checkReplies() error {
	if cfg.replies == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(cfg.replies); err != nil {
		return usagef("--replies %q is not an address: write host:port, for example 127.0.0.1:0", cfg.replies)
	}
	if cfg.rdma == "" {
		return usagef("--replies needs --listen ADDRESS: replies are pushed by RDMA")
	}
	return nil
}
