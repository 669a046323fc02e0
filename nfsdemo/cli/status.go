package cli

import (
	"cmp"
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
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/transport/rpc"
)

// statusFlag is the help of --status.
const statusFlag = "`address` for HTTP: /status, a page for people and JSON; /metrics, for Prometheus; /healthz, /readyz and /debug/pprof/"

// statusServer serves --status, and the control socket. A nil *statusServer does nothing.
type statusServer struct {
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
	s := new(statusServer)
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

// statusServer describes how a service is watched, and what may be done to it.
func (s *service) statusServer() *ops.Server {
	return &ops.Server{
		Names:   ownNames(s.cfg.status, s.web),
		Actions: map[string]func(context.Context, string) (string, error){"unexport": s.unexport, "kick": s.kick, "free-locks": s.freeLocks},
		Report:  s.report,
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
			if s.push != nil {
				collect(ch, metricsPrefix+"push", reflect.ValueOf(s.push.Stats()))
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
func (s *service) report() *ops.Report {
	out := &ops.Report{
		Kind: "serve", Version: cliout.Version(), Started: s.started, Exports: s.exported(),
		Addresses: map[string]string{}, Clients: []ops.Client{}, Transport: s.srv.Stats(), Calls: s.calls.Rows(), Problems: []ops.Problem{},
	}
	for _, at := range s.where().places() {
		out.Addresses[at.name] = at.addr
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
	if s.push != nil {
		st := s.push.Stats()
		out.Push = &st
	}
	return out
}

// exported describes the exports.
func (s *service) exported() (out []ops.Export) {
	s.set.mu.Lock()
	defer s.set.mu.Unlock()
	for _, x := range s.set.list {
		e := ops.Export{Path: x.Path, Mode: modeOf(&x.Export.Export), Clients: modesOf(&x.Export.Export)}
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

// metricsPrefix is the prefix of every metric's name.
const metricsPrefix = "nfsdemo_"

// collector collects metrics when it is asked, and does not describe them before.
type collector func(ch chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c(ch) }

// collect sends the numbers in a snapshot: field RDMAReads becomes prefix_rdma_reads, with _total if it
// only grows.
func collect(ch chan<- prometheus.Metric, prefix string, st reflect.Value) {
	for i := range st.NumField() {
		f, v := st.Type().Field(i), st.Field(i)
		name := prefix + "_" + snake(f.Name)
		var n float64
		switch {
		case !f.IsExported():
			continue
		case v.CanInt():
			n = float64(v.Int())
		case v.CanUint():
			n = float64(v.Uint())
		case f.Anonymous: // a group, which is not in names
			collect(ch, prefix, v)
			continue
		case v.Kind() == reflect.Struct:
			collect(ch, name, v)
			continue
		default:
			continue
		}
		what := strings.TrimPrefix(name, metricsPrefix)
		help := cmp.Or(metricsHelp[what], locksHelp[what])
		kind := prometheus.GaugeValue
		if !strings.HasPrefix(help, "Now:") {
			name, kind = name+"_total", prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, n)
	}
}

// snake converts a name such as DRCEntries to drc_entries.
func snake(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// metricsHelp holds the help texts of the metrics, by name without the prefix nfsdemo_. A text that
// begins with "Now" belongs to a gauge; the others belong to counters.
var metricsHelp = map[string]string{
	"transport_calls":            "Calls received.",
	"transport_replies":          "Calls answered.",
	"transport_octets_read":      "Octets read by RDMA Read: chunks of calls.",
	"transport_octets_written":   "Octets written by RDMA Write: write chunks and reply chunks.",
	"transport_octets_exposed":   "Octets that clients have read from exposed replies (RFC 5666 Section 3.8).",
	"transport_dones":            "RDMA_DONEs received.",
	"transport_withheld":         "Replies that waited before they could be exposed.",
	"transport_exposed":          "Now: replies that wait for their RDMA_DONE.",
	"transport_deferred":         "Calls whose data were left at the client until they were asked for.",
	"transport_unpulled":         "Deferred calls whose data nobody asked for.",
	"transport_registered":       "Registrations of memory for chunks.",
	"transport_reused":           "Uses of registered memory that needed no registration.",
	"transport_octets_lent":      "Now: octets of memory that peers can access.",
	"transport_padded":           "Messages received as RDMA_MSGP.",
	"transport_octets_inline":    "Octets of the Sends of calls and replies, or of their records on TCP.",
	"transport_read_segments":    "Segments of the read lists of calls.",
	"transport_write_segments":   "Segments of the write lists of calls.",
	"transport_reply_segments":   "Segments of the reply chunks of calls.",
	"transport_long_calls":       "Calls in a Position Zero chunk.",
	"transport_octets_offered":   "Octets that calls have offered for results.",
	"transport_credits":          "Now: credits that new replies grant.",
	"transport_pool_credits":     "Now: size of the pool of credits that connections share.",
	"transport_pool_held":        "Now: credits of the pool that clients have.",
	"transport_connections":      "Now: connections.",
	"transport_accepted":         "Connections that finished their start-up.",
	"transport_errors":           "Calls that ended in an error of the transport, refused headers included.",
	"transport_panics":           "Panics of handlers, and on what a connection brought, which ended it.",
	"transport_dropped":          "Messages dropped (RFC 8166 Section 4.5).",
	"transport_invalidated":      "Replies that revoked a steering tag.",
	"transport_not_allowed":      "Connections refused by --allow.",
	"transport_too_many":         "Connections refused by a limit of connections.",
	"transport_slow_peers":       "Connections closed because the peer kept the server waiting.",
	"transport_tls_conns":        "Now: connections within TLS.",
	"transport_mtls_conns":       "Now: those of them whose client has shown a certificate.",
	"transport_tls_failed":       "Handshakes of TLS that failed.",
	"transport_gss_contexts":     "Now: contexts of RPCSEC_GSS (Kerberos).",
	"transport_gss_refused":      "Tokens for which there was no context.",
	"transport_gss_none":         "Calls in contexts that show who calls (krb5).",
	"transport_gss_integrity":    "Calls whose arguments nobody can change (krb5i).",
	"transport_gss_privacy":      "Calls whose arguments nobody can read (krb5p).",
	"transport_waited":           "Calls that waited for memory, or for their turn to be pulled.",
	"transport_waiting":          "Now: calls that wait for memory, or for their turn to be pulled.",
	"transport_pulls":            "Now: calls whose chunks are being read.",
	"transport_exposed_refused":  "Replies refused because too much memory was exposed.",
	"transport_takeovers":        "Handlers that kept the reading goroutine too long.",
	"transport_backward_calls":   "Calls to clients (RFC 8167).",
	"transport_backward_replies": "Calls to clients that were answered.",
	"transport_in_flight":        "Now: calls without an answer.",
	"transport_replayed":         "Repeated calls answered with the reply of the first one.",
	"transport_joined":           "Repeated calls that came while the first one was running, and got its reply.",
	"transport_unsure":           "Calls without an answer, because it could not be read whether they had come before.",
	"transport_held":             "Now: octets of the memory limit that calls hold.",
	"transport_stuck":            "Connections closed because a call without memory stood before replies that handlers waited for.",
	"transport_unbound":          "Refused calls whose data no binding lets travel in chunks.",
	"transport_late":             "Calls not executed, because their connection had ended, or been closed for a newer one.",
	"transport_retransmits":      "Calls sent again; 0 at a server.",
	"transport_silences":         "Connections closed because nothing came; 0 at a server.",
	"transport_drc_entries":      "Now: replies in the duplicate request cache.",
	"transport_drc_octets":       "Now: octets of the duplicate request cache.",
	"transport_drc_evicted":      "Replies that left the duplicate request cache before their time.",

	"push_logs":     "Now: logs.",
	"push_sessions": "Now: sessions.",
	"push_conns":    "Now: commit connections.",
	"push_octets":   "Now: octets of all rings.",
	"push_aside":    "Files in the directory of the logs that have no owner and may hold records.",
	"push_made":     "Logs made.",
	"push_opens":    "Sessions begun.",
	"push_refused":  "OPENs that were refused.",
	"push_full":     "OPENs that were refused because there was no room for a log, of all clients or of one.",
	"push_native":   "Sessions that use a commit connection.",
	"push_rejected": "Commit connections refused: without a valid token, or too many.",
	"push_appends":  "Records appended by calls.",
	"push_lost":     "Logs whose memory has failed.",
}

// locksHelp has those of locks, if they are served.
var locksHelp = map[string]string{
	"locks_held":       "Now: locks that clients hold.",
	"locks_waits":      "Now: locks that clients wait for.",
	"locks_clients":    "Now: clients that may hold locks.",
	"locks_refused":    "Locks refused with DENIED_NOLOCKS.",
	"locks_left_out":   "Calls to clients that were left out, since there were too many.",
	"locks_unanswered": "Calls to clients that were not answered.",
}
