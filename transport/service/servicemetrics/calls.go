// Package servicemetrics counts the calls of a service for Prometheus.
package servicemetrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Calls is the histogram rpc_service_call_duration_seconds: how many calls of which procedure came over which transport,
// how long they took in their handlers, and whether these returned an error ("error", also of a panic) or not ("ok").
// Register it, and add Intercept to Mux.Intercept; it is safe for concurrent use.
type Calls struct {
	prometheus.Collector
	took *prometheus.HistogramVec
}

// New returns a collector that has counted nothing. Two of them do not fit into one registry.
func New() *Calls {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rpc_service_call_duration_seconds",
		Help:    "Time that calls took in their handlers, by outcome.",
		Buckets: prometheus.ExponentialBuckets(16e-6, 4, 10), // from what memory answers to 4 s
	}, []string{"program", "version", "procedure", "transport", "outcome"})
	return &Calls{h, h}
}

// Intercept is a service.Interceptor. What it counts has few labels whatever clients send: a Mux has no
// Interceptor run for a procedure that it does not serve.
func (c *Calls) Intercept(ctx context.Context, req *rpc.Request, next func(context.Context) error) error {
	begun, outcome := time.Now(), "error"
	defer func() { // also when the handler panics
		c.took.WithLabelValues("0x"+strconv.FormatUint(uint64(req.Prog), 16), strconv.FormatUint(uint64(req.Vers), 10),
			strconv.FormatUint(uint64(req.Proc), 10), req.Network, outcome).Observe(time.Since(begun).Seconds())
	}()
	err := next(ctx)
	if err == nil {
		outcome = "ok"
	}
	return err
}
