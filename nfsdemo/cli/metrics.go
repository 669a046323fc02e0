package cli

import (
	"net/http"
	"reflect"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stag-rdma/stag/nfsdemo/pushwrite"
)

// metricsPrefix is the prefix of every metric's name.
const metricsPrefix = "nfsdemo_"

// metricsHandler serves /metrics: the counters of /status, for Prometheus.
func metricsHandler(s *service, pw *pushwrite.Server) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector(func(ch chan<- prometheus.Metric) {
		collect(ch, metricsPrefix+"transport", reflect.ValueOf(s.srv.Stats()))
		if pw != nil {
			st := pw.Stats()
			collect(ch, metricsPrefix+"push", reflect.ValueOf(st))
			collect(ch, metricsPrefix+"push", reflect.ValueOf(struct{ BlockedNow, CondemnedNow int }{len(st.Now), len(st.NowCondemned)}))
		}
	}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// collector collects metrics when it is asked, and does not describe them before.
type collector func(ch chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c(ch) }

// collect sends the numbers in a snapshot: field RDMAReads becomes prefix_rdma_reads.
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
		case v.Kind() == reflect.Struct:
			collect(ch, name, v)
			continue
		default:
			continue
		}
		help, kind := metricsHelp[strings.TrimPrefix(name, metricsPrefix)], prometheus.CounterValue
		if strings.HasPrefix(help, "Now:") {
			kind = prometheus.GaugeValue
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
