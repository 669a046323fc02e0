package servicemetrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/transport/service/servicemetrics"
	"github.com/stag-rdma/stag/xdr"
)

// A Mux whose calls a Prometheus registry sees.
func Example() {
	ping := service.Proc[service.Void, service.Void]{Prog: 0x20000001, Vers: 1, Proc: 1}
	calls := servicemetrics.New()
	prometheus.MustRegister(calls)
	mux := &service.Mux{Intercept: []service.Interceptor{calls.Intercept}}
	service.Handle(mux, ping, func(context.Context, *service.Void) (*service.Void, error) { return nil, nil })

	// A transport.Server does this.
	req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: ping.Prog, Vers: ping.Vers, Proc: ping.Proc}, Network: "rdma"}
	mux.ServeRPC(context.Background(), req, new(rpc.Response))
	fmt.Println(testutil.CollectAndCount(calls, "rpc_service_call_duration_seconds"), "series")
	// Output: 1 series
}
