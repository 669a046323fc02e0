package ops

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

// This file has what a server tells its administrator over HTTP: a page for people, the same as JSON,
// metrics for Prometheus, whether it is alive and ready, and profiles.

// Report is the state of a server.
type Report struct {
	Kind    string    `json:"kind"` // "serve" or "proxy"
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Ready is empty, or says why clients cannot be served.
	Ready     string            `json:"not_ready,omitempty"`
	Exports   []Export          `json:"exports,omitempty"`
	Server    string            `json:"server,omitempty"` // behind a proxy
	Addresses map[string]string `json:"addresses"`
	Clients   []Client          `json:"clients"`
	Mounts    []Mount           `json:"mounts,omitempty"`
	Locks     []Lock            `json:"locks,omitempty"` // at most MaxLocks of them
	LockCount int               `json:"lock_count,omitempty"`
	Lockd     string            `json:"lock_manager,omitempty"` // "on", or "off: " and why
	Rates     []Rate            `json:"rates"`
	Calls     []Row             `json:"calls,omitempty"`
	Busiest   []Busy            `json:"busiest_clients,omitempty"`
	Transport rpc.Stats         `json:"transport"`
	Push      *push.Stats       `json:"push,omitempty"`
	Problems  []Problem         `json:"problems"` // what needs somebody's attention
}

// Export is an exported file system.
type Export struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
	// Clients are those that it names, each with its options; none: it admits everybody who may connect.
	Clients []string `json:"clients,omitempty"`
	Away    string   `json:"away,omitempty"` // why it cannot be used now
	// Size and Avail are octets of its file system, and of it those that users may still write; 0: not known.
	Size  uint64 `json:"size_octets,omitempty"`
	Avail uint64 `json:"avail_octets,omitempty"`
}

// Mount says that a client has mounted a directory; it may have crashed since.
type Mount struct {
	Export string    `json:"export,omitempty"` // that it is in; "": it is exported no longer
	Path   string    `json:"path"`
	Client string    `json:"client"` // its address
	Since  time.Time `json:"since"`
}

// Lock is a lock that a process of a client holds, or waits for.
type Lock struct {
	Export    string `json:"export,omitempty"` // "": it is exported no longer
	Inode     uint64 `json:"inode,omitempty"`  // of the file; 0: not known
	Client    string `json:"client"`           // its address
	Name      string `json:"name"`             // as it calls itself
	Process   uint64 `json:"process"`
	Exclusive bool   `json:"exclusive"`
	Start     uint64 `json:"start"` // of the first octet
	End       uint64 `json:"end"`   // of the last one; 2^64-1: wherever the file ends
	Waits     bool   `json:"waits,omitempty"`
}

// MaxLocks is how many locks a Report names.
const MaxLocks = 1000

// Client is a connection.
type Client struct {
	Address   string    `json:"address"`
	Transport string    `json:"transport"`
	Since     time.Time `json:"since"`
	Mounts    []string  `json:"mounts,omitempty"` // of this host
	OctetsIn  uint64    `json:"octets_in"`        // 0 over TCP: not counted
	OctetsOut uint64    `json:"octets_out"`
}

// Problem is something that needs somebody's attention.
type Problem struct {
	Export string    `json:"export,omitempty"`
	Error  string    `json:"error"`
	Remedy string    `json:"remedy,omitempty"` // what to do
	Since  time.Time `json:"since,omitzero"`
}

// Server answers the requests. Set the fields before the first one.
type Server struct {
	// Report returns the state, without Rates.
	Report func() *Report
	// Ready returns why clients cannot be served, "" if they can.
	Ready func() string
	// ReadyWith, if not nil, returns what else is to be said of a server that is ready, "" for nothing.
	ReadyWith func() string
	// Collectors are the metrics of the server, besides those of the process.
	Collectors []prometheus.Collector
	// Version is that of the program.
	Version string
	// Actions are what an administrator may do at the control socket, by name. Each returns what it has done, in a sentence,
	// or why it could not.
	Actions map[string]func(ctx context.Context, what string) (string, error)
	// Names are those by which requests may ask for the server, besides addresses and localhost. Without TLS, a page from
	// elsewhere could have its own name lead here, and read the answers (DNS rebinding). If nil, all names will do.
	Names []string

	rates    rates
	crowd    crowd
	unserved atomic.Uint64
}

// Timeout limits one request, unless it is for a profile.
const Timeout = 10 * time.Second

// longest is the longest profile.
const longest = 5 * time.Minute

// maxHeader is how long the header of a request may be; net/http adds 4 KiB.
const maxHeader = 8 << 10

// How many answers there are at a time, of those that take memory.
const (
	maxPages    = 16
	maxProfiles = 2
)

// HTTP returns the server for a listener.
func (s *Server) HTTP() *http.Server {
	pages := s.Handler()
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.named(r.Host) {
				http.Error(w, "this server has another name: ask for its address, name it in --status, or use --tls-cert", http.StatusMisdirectedRequest)
				return
			}
			pages.ServeHTTP(w, r)
		}),
		ReadTimeout: Timeout, ReadHeaderTimeout: Timeout, MaxHeaderBytes: maxHeader, ConnState: s.crowd.state,
	}
}

// named reports whether the Host of a request may be that of this server. A name cannot lead elsewhere if it is an address.
func (s *Server) named(host string) bool {
	if s.Names == nil || host == "" { // browsers say one
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(s.Names, func(n string) bool { return strings.EqualFold(host, n) })
}

// Control returns the server for the control socket: the pages, and "POST /NAME?of=WHAT" for each action. Whoever can open
// the socket may do them.
func (s *Server) Control() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	for name, do := range s.Actions {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), Timeout)
			defer cancel()
			did, err := do(ctx, r.URL.Query().Get("of"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte(did + "\n")) // the client is gone
		})
	}
	return &http.Server{Handler: mux, ReadTimeout: Timeout, ReadHeaderTimeout: Timeout, MaxHeaderBytes: maxHeader}
}

// Handler serves the pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h http.Handler, limit time.Duration) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // only recorders have none
			ctx, cancel := context.WithTimeout(r.Context(), limit)                    // a profile takes as long as the request says
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	pages, profiles := &places{room: make(chan struct{}, maxPages)}, make(chan struct{}, maxProfiles)
	page := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x, ok := pages.enter(w, r)
			if !ok {
				s.refuse(w, "there are too many requests")
				return
			}
			defer x.leave()
			h.ServeHTTP(x, r)
			x.write()
		})
	}
	profile := func(h http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case profiles <- struct{}{}:
			default:
				s.refuse(w, "others take profiles now")
				return
			}
			defer func() { <-profiles }()
			h.ServeHTTP(w, r)
		})
	}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /{$}":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status", http.StatusFound) },
		"GET /healthz": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) },
		"GET /readyz": func(w http.ResponseWriter, _ *http.Request) {
			if why := s.Ready(); why != "" {
				http.Error(w, why, http.StatusServiceUnavailable)
				return
			}
			with := ""
			if s.ReadyWith != nil {
				with = s.ReadyWith()
			}
			_, _ = w.Write([]byte("ready" + with + "\n"))
		},
	} {
		handle(pattern, h, Timeout)
	}
	handle("GET /status", page(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			s.page(w)
			return
		}
		s.json(w)
	})), Timeout)
	handle("GET /status.json", page(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.json(w) })), Timeout)
	handle("GET /metrics", page(s.metrics()), Timeout)
	handle("/debug/pprof/", profile(pprof.Index), longest)
	handle("GET /debug/pprof/profile", profile(pprof.Profile), longest)
	handle("GET /debug/pprof/trace", profile(func(w http.ResponseWriter, r *http.Request) {
		pprof.Trace(&promptWriter{w, http.NewResponseController(w)}, r)
	}), longest)
	handle("GET /debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline), Timeout)
	handle("/debug/pprof/symbol", profile(pprof.Symbol), Timeout)
	return mux
}

// refuse answers a request for which there is no place.
func (s *Server) refuse(w http.ResponseWriter, why string) {
	s.unserved.Add(1)
	http.Error(w, why+": try again later", http.StatusServiceUnavailable)
}

// promptWriter ends a trace whose client does not read it: what it does not read, the runtime keeps in memory.
type promptWriter struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (w *promptWriter) Write(p []byte) (int, error) {
	_ = w.c.SetWriteDeadline(time.Now().Add(patience)) // only recorders have none
	return w.ResponseWriter.Write(p)
}

// report is the state with the rates.
func (s *Server) report() *Report {
	r := s.Report()
	r.Ready = s.Ready()
	r.Rates = s.rates.last(&r.Transport)
	return r
}

func (s *Server) json(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(s.report()) // the client is gone
}

// metrics serves the metrics.
func (s *Server) metrics() http.Handler {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nfsdemo_build_info", Help: "1, labeled by the version of nfsdemo and of Go.",
		ConstLabels: prometheus.Labels{"version": s.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nfsdemo_ready", Help: "1 if clients can be served, 0 if not: /readyz says why.",
	}, func() float64 {
		if s.Ready() == "" {
			return 1
		}
		return 0
	})
	counter := func(name, help string, n *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "nfsdemo_status_" + name, Help: help}, func() float64 { return float64(n.Load()) })
	}
	r.MustRegister(counter("closed_total", "Connections of --status closed to make room for others.", &s.crowd.removed),
		counter("refused_total", "Requests of --status for which there was no place.", &s.unserved))
	r.MustRegister(build, ready, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(s.Collectors...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
	"since":   func(t time.Time) string { return span(time.Since(t)) },
	"ago":     ago,
	"took":    Took,
	"octets":  func(n any) string { f, _ := strconv.ParseFloat(fmt.Sprint(n), 64); return Octets(f) }, // any kind of number
	"number":  number,
	"seconds": func(s float64) string { return fmt.Sprintf("%.0f s", s) },
}).Parse(pageHTML))

// page writes the page for people.
func (s *Server) page(w http.ResponseWriter) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s.report()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(b.Bytes()) // the client is gone
}

// ago is span, of a time that may be unknown.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(time.Since(t)) + " ago"
}

// span is a time in the two largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// Took formats the time of a call, with three digits.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// number is a rate, without digits that say nothing.
func number(f float64) string {
	if f >= 10 || f == 0 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.1f", f)
}

// Octets formats a count of octets: exact below 10 KiB, otherwise three digits and a binary unit.
func Octets[T int64 | uint64 | float64](n T) string {
	f := float64(n)
	if f < 10<<10 {
		return fmt.Sprintf("%.0f", f)
	}
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		f /= 1024
		switch {
		case f < 9.995:
			return fmt.Sprintf("%.2f %s", f, unit)
		case f < 99.95:
			return fmt.Sprintf("%.1f %s", f, unit)
		case f < 1023.5:
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return fmt.Sprintf("%.0f EiB", f/1024)
}

// How often the counters are kept, and for how long.
const (
	sampleEvery = 5 * time.Second
	sampleTime  = time.Minute
)

// Rate is what happens in a second, on average over some time.
type Rate struct {
	Over      float64 `json:"seconds"` // that time
	Calls     float64 `json:"calls_per_second"`
	Errors    float64 `json:"errors_per_second"`            // of the transport
	Read      float64 `json:"rdma_read_octets_per_second"`  // from clients
	Written   float64 `json:"rdma_write_octets_per_second"` // to clients
	Inline    float64 `json:"inline_octets_per_second"`     // both ways
	Connected float64 `json:"connections_per_second"`
}

// sample is a snapshot of counters.
type sample struct {
	at time.Time
	st rpc.Stats
}

// rates keeps the samples of the last minute.
type rates struct {
	mu  sync.Mutex
	all []sample // oldest first
}

// Sample keeps what stats returns, again and again until ctx ends, for the rates in the report.
func (s *Server) Sample(ctx context.Context, stats func() rpc.Stats) {
	for {
		s.rates.add(sample{time.Now(), stats()})
		select {
		case <-time.After(sampleEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (r *rates) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	if len(r.all) > int(sampleTime/sampleEvery) {
		r.all = slices.Delete(r.all, 0, 1)
	}
}

// last returns the rates over the last seconds and over the last minute; fewer if the server is young.
func (r *rates) last(now *rpc.Stats) []Rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Rate{}
	if n := len(r.all); n > 1 {
		out = append(out, rate(&r.all[n-2], now))
	}
	if len(r.all) > 2 {
		out = append(out, rate(&r.all[0], now))
	}
	return out
}

// rate compares a sample with the counters now.
func rate(s *sample, now *rpc.Stats) Rate {
	d := max(time.Since(s.at).Seconds(), 1e-3)
	per := func(before, after uint64) float64 { return float64(after-before) / d }
	return Rate{
		Over: d, Calls: per(s.st.Calls, now.Calls), Errors: per(s.st.Errors, now.Errors), Connected: per(s.st.Accepted, now.Accepted),
		Read: per(s.st.OctetsRead, now.OctetsRead), Written: per(s.st.OctetsWritten, now.OctetsWritten), Inline: per(s.st.OctetsInline, now.OctetsInline),
	}
}
