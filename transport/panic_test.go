package transport_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// printed returns what f prints to standard error.
func printed(t *testing.T, f func()) string {
	t.Helper()
	file := must(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer file.Close()
	was := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = was }()
	f()
	out := must(os.ReadFile(file.Name()))(t)
	return string(out)
}

// callPanics makes a call whose handler panics.
func callPanics(t *testing.T, cfg *transport.Config) {
	_, addr := served(t, overTCP, rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) { panic("the vase is broken") }), cfg)
	wantStatus(t, dialStream(t, addr, nil), &rpc.Call{Prog: 400100, Vers: 1, Proc: 7}, xdr.SystemErr)
}

// TestPanicIsPrinted: without a Logger a panic goes to standard error, with one it does not.
func TestPanicIsPrinted(t *testing.T) {
	got := printed(t, func() { callPanics(t, nil) })
	for _, want := range []string{"the vase is broken", "program 400100, procedure 7", "panic_test.go"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if got := printed(t, func() { callPanics(t, &transport.Config{Logger: zap.NewNop()}) }); got != "" {
		t.Errorf("with a Logger: %q", got)
	}
}
