package servicemetrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service/servicemetrics"
	"github.com/stag-rdma/stag/xdr"
)

// TestCalls counts a success, an error and a panic, which goes on to the server.
func TestCalls(t *testing.T) {
	calls, reg := servicemetrics.New(), prometheus.NewPedanticRegistry()
	reg.MustRegister(calls)
	bad := errors.New("bad")
	req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: 0x20000001, Vers: 1, Proc: 2}, Network: "rdma"}
	for _, want := range []error{nil, nil, bad} {
		if err := calls.Intercept(t.Context(), req, func(context.Context) error { return want }); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	func() {
		defer func() {
			if recover() != "a bug" {
				t.Error("the panic was kept")
			}
		}()
		_ = calls.Intercept(t.Context(), req, func(context.Context) error { panic("a bug") })
	}()
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	got := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		s := ""
		for _, l := range m.GetLabel() {
			s += l.GetName() + "=" + l.GetValue() + " "
		}
		got[s] = m.GetHistogram().GetSampleCount()
	}
	want := map[string]uint64{
		"outcome=ok procedure=2 program=0x20000001 transport=rdma version=1 ":    2,
		"outcome=error procedure=2 program=0x20000001 transport=rdma version=1 ": 2,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
