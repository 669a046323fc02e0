package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

// statusFlag is the help of --status.
const statusFlag = "`address` for HTTP: /status, a page for people and JSON; /metrics, for Prometheus; /healthz, /readyz and /debug/pprof/"

// statusServer serves --status, and the control socket. A nil *statusServer does nothing.
type statusServer struct {
	l       net.Listener // of --status; nil: none
	list    []*http.Server
	wg      sync.WaitGroup
	cancel  context.CancelFunc
	stopped atomic.Bool // the server drains
}

// serveStatus serves st on l and its actions too on control; either may be nil. The rates are those of stats.
func serveStatus(l, control net.Listener, st *ops.Server, stats func() rpc.Stats, errs chan<- error) *statusServer {
	if l == nil && control == nil {
		return nil
	}
	s := &statusServer{l: l}
	alive := st.Ready
	st.Ready = func() string {
		if s.stopped.Load() {
			return "the server is stopping"
		}
		return alive()
	}
	st.Version = cliout.Version()
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(func() { st.Sample(ctx, stats) })
	serve := func(h *http.Server, l net.Listener) {
		s.list = append(s.list, h)
		s.wg.Go(func() {
			if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				errs <- err
			}
		})
	}
	if l != nil {
		serve(st.HTTP(), l)
	}
	if control != nil {
		serve(st.Control(), control)
	}
	return s
}

// ownNames are the names by which --status may be asked for without TLS: that of its address, and this machine's.
func ownNames(addr, scheme string) []string {
	if scheme == "https" {
		return nil // a certificate says whose name it is
	}
	host, _, _ := net.SplitHostPort(addr) // "" is no name
	machine, _ := os.Hostname()
	short, _, _ := strings.Cut(machine, ".")
	return []string{host, machine, short}
}

// stopping makes the server unready.
func (s *statusServer) stopping() {
	if s != nil {
		s.stopped.Store(true)
	}
}

// close ends everything.
func (s *statusServer) close() error {
	if s == nil {
		return nil
	}
	s.cancel()
	var err error
	for _, h := range s.list {
		if cerr := h.Close(); !errors.Is(cerr, net.ErrClosed) { // the listener closes with the others
			err = errors.Join(err, cerr)
		}
	}
	s.wg.Wait()
	return err
}

// addr returns the address of --status, "" if there is none.
func (s *statusServer) addr() string {
	if s == nil {
		return ""
	}
	return addrOf(s.l)
}

// statusServer describes how a service is watched, and what may be done to it.
func (s *service) statusServer() *ops.Server {
	var ps *push.Server
	if s.push != nil {
		ps = s.push.srv
	}
	return &ops.Server{
		Names:   ownNames(s.cfg.status, s.web),
		Actions: map[string]func(context.Context, string) (string, error){"unexport": s.unexport, "kick": s.kick, "free-locks": s.freeLocks},
		Report:  func() *ops.Report { return s.report(ps) },
		Ready: func() string {
			var why []string
			if len(s.set.exports()) == 0 {
				why = append(why, "nothing is exported")
			}
			for _, p := range s.set.away() {
				why = append(why, fmt.Sprintf("the export %s cannot be used: %s", p.Export, p.Error))
			}
			return strings.Join(why, "\n")
		},
		ReadyWith: func() string {
			switch why := s.locks.missing(); {
			case why != "":
				return ", without locks: " + why
			case s.locks.srv != nil:
				return ", with locks"
			}
			return ""
		},
		Collectors: []prometheus.Collector{s.calls, collector(func(ch chan<- prometheus.Metric) {
			collect(ch, metricsPrefix+"transport", reflect.ValueOf(s.srv.Stats()))
			s.set.collect(ch)
			if s.locks.wanted {
				ready := 1.0
				if s.locks.missing() != "" {
					ready = 0
				}
				d := prometheus.NewDesc(metricsPrefix+"locks_ready", "1 if locks are served, 0 if not although they are wanted: /readyz says why.", nil, nil)
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, ready)
			}
			if k := s.locks.srv; k != nil {
				collect(ch, metricsPrefix+"locks", reflect.ValueOf(k.Stats()))
			}
			if ps != nil {
				collect(ch, metricsPrefix+"push", reflect.ValueOf(ps.Stats()))
			}
		})},
	}
}

// statusServer describes how a proxy is watched.
func (x *proxying) statusServer() *ops.Server {
	unready := func() string {
		if _, err := x.alive.lost(); err != nil {
			return fmt.Sprintf("the server %s cannot be used: %v", x.alive.what, err)
		}
		return ""
	}
	counter := func(name, help string, n func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, func() float64 { return float64(n()) })
	}
	return &ops.Server{
		Names: ownNames(x.f.status, x.r.web), Report: x.report, Ready: unready,
		Collectors: []prometheus.Collector{
			collector(func(ch chan<- prometheus.Metric) { collect(ch, metricsPrefix+"transport", reflect.ValueOf(x.stats())) }),
			counter("proxy_clients_total", "Clients that came.", func() uint64 { return x.p.Stats().Accepted }),
			counter("proxy_failed_total", "Clients for which the server could not be reached.", func() uint64 { return x.p.Stats().Failed }),
			counter("proxy_slow_total", "Clients that ended because they, or the server, stopped inside a record or did not answer.", func() uint64 { return x.p.Stats().Slow }),
			counter("proxy_mount_refused_total", "Connections for MOUNT of clients that are not allowed, or beyond the limits.", func() uint64 {
				if x.m == nil {
					return 0
				}
				st := x.m.Stats()
				return st.NotAllowed + st.TooMany
			}),
		},
	}
}

// report is the state of a proxy.
func (x *proxying) report() *ops.Report {
	out := &ops.Report{
		Kind: "proxy", Version: cliout.Version(), Started: x.started, Server: x.alive.what, Transport: x.stats(),
		Addresses: map[string]string{x.r.Scheme: x.r.Listen, "status": x.r.Status}, Clients: []ops.Client{}, Problems: []ops.Problem{},
	}
	if x.r.Mount != "" {
		out.Addresses["mount"] = x.r.Mount
	}
	for _, c := range x.p.Clients() {
		out.Clients = append(out.Clients, ops.Client{Address: c.Addr.String(), Transport: c.Network, Since: c.Since})
	}
	slices.SortFunc(out.Clients, func(a, b ops.Client) int { return a.Since.Compare(b.Since) })
	if since, err := x.alive.lost(); err != nil {
		out.Problems = append(out.Problems, ops.Problem{
			Error: "the server cannot be used: " + err.Error(), Remedy: "start the server; nfsdemo doctor says what is wrong with it", Since: since,
		})
	}
	return out
}

// report is the state of a service.
func (s *service) report(ps *push.Server) *ops.Report {
	out := &ops.Report{
		Kind: "serve", Version: cliout.Version(), Started: s.started, Exports: s.exported(),
		Addresses: map[string]string{}, Clients: []ops.Client{}, Transport: s.srv.Stats(), Calls: s.calls.Rows(), Problems: []ops.Problem{},
	}
	for name, addr := range s.addresses() {
		if addr != "" {
			out.Addresses[name] = addr
		}
	}
	mounts := make(map[string][]string)
	for _, m := range s.nfs.Mounts() {
		x := ops.Mount{Export: s.nfs.ExportAt(m.Dir), Path: m.Dir, Client: m.Host, Since: m.Since}
		if out.Mounts = append(out.Mounts, x); x.Export != "" {
			mounts[m.Host] = append(mounts[m.Host], m.Dir)
		}
	}
	out.Busiest, _ = s.calls.Busiest()
	out.Locks, out.LockCount = s.lockList()
	out.Lockd = s.locks.String()
	for _, c := range s.srv.Clients() {
		out.Clients = append(out.Clients, ops.Client{
			Address: c.Addr.String(), Transport: c.Network, Since: c.Since, OctetsIn: c.OctetsIn, OctetsOut: c.OctetsOut, Mounts: mounts[peeraddr.Host(c.Addr)],
		})
	}
	slices.SortFunc(out.Clients, func(a, b ops.Client) int { return a.Since.Compare(b.Since) })
	out.Problems = append(out.Problems, s.set.away()...)
	if few := descriptorsWarning(); few != "" {
		out.Problems = append(out.Problems, ops.Problem{Error: "files: " + few, Remedy: "LimitNOFILE=65536 in the unit, and restart the server", Since: s.started})
	}
	if much := cgroupWarning(os.DirFS("/"), s.cfg.config.Limits.Memory); much != "" {
		out.Problems = append(out.Problems, ops.Problem{Error: much, Remedy: "raise MemoryMax= of the unit, or leave --memory-limit out", Since: s.started})
	}
	if why := s.locks.missing(); why != "" && s.locks.srv == nil { // else it is rpcbind that is missing, below
		out.Problems = append(out.Problems, ops.Problem{
			Error: "locks are off: " + why, Remedy: "mend that, and restart the server; until then clients must mount with nolock", Since: s.started,
		})
	}
	if s.binding != nil {
		if since, err := s.binding.lost(); err != nil {
			out.Problems = append(out.Problems, ops.Problem{
				Error: err.Error(), Remedy: "until then clients must name the ports, and have no locks", Since: since,
			})
		}
	}
	if ps != nil {
		st := ps.Stats()
		out.Push = &st
	}
	return out
}

// exported describes the exports.
func (s *service) exported() (out []ops.Export) {
	s.set.mu.Lock()
	defer s.set.mu.Unlock()
	for _, x := range s.set.list {
		e := ops.Export{Path: x.Path, Mode: modeOf(&x.Export.Export)}
		if _, err := x.alive.lost(); err != nil {
			e.Away = err.Error()
		}
		if u := x.usage.Load(); u != nil {
			e.Size, e.Avail = u.TotalBytes, u.AvailBytes
		}
		out = append(out, e)
	}
	return out
}
