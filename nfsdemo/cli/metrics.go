package cli

import (
	"cmp"
	"reflect"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

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
