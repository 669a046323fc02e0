package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"go.uber.org/zap"
)

// openUDP opens the port for MOUNT and locks over UDP, which clients find through rpcbind.
func (s *service) openUDP(ctx context.Context) (err error) {
	l := s.mount
	if l == nil {
		l = s.tcp
	}
	if l == nil {
		return nil
	}
	if s.udp, err = listenBeside(ctx, l.Addr()); err != nil {
		return fmt.Errorf("--register: UDP: %w", bareListen(err))
	}
	return nil
}

// listenBeside listens on UDP, on the port that a listener has for TCP if it is free.
func listenBeside(ctx context.Context, a net.Addr) (net.PacketConn, error) {
	udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", a.String())
	if err == nil {
		return udp, nil
	}
	host, _, serr := net.SplitHostPort(a.String())
	if serr != nil {
		return nil, err
	}
	return new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(host, "0"))
}

// serveUDP serves it.
func (s *service) serveUDP(cfg *serviceConfig) {
	if s.udp == nil {
		return
	}
	s.wg.Go(func() {
		err := lockd.ServeUDP(context.Background(), s.udp, mountOnly{s.srv.Handler}, s.answersUDP)
		if !errors.Is(err, net.ErrClosed) && cfg.config.Logger != nil {
			cfg.config.Logger.Error("MOUNT and locks over UDP have ended", zap.Error(err))
		}
	})
}

// answersUDP reports whether a datagram is answered. Anybody can send one in the name of another, to whom the answer goes:
// a list of exports is many times as long as the question for it. So MOUNT answers those whom the administrator has named.
func (s *service) answersUDP(from net.Addr, prog uint32) bool {
	if allow := s.srv.Config.Limits.Allow; allow != nil {
		return allow(from)
	}
	return prog != mount3.Program || peeraddr.IP(from).IsLoopback() || s.nfs.Names(from)
}
