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
