package transport_test

import (
	"context"
	"errors"
	"net"
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
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	was := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = was }()
	f()
	out, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// callPanics makes a call whose handler panics.
func callPanics(t *testing.T, cfg *transport.Config) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Config: cfg, Handler: rpc.HandlerFunc(
		func(context.Context, *rpc.Request, *rpc.Response) { panic("the vase is broken") })}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	defer func() { s.Close(); <-served }()
	c, err := transport.DialStream(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var r rpc.Reply
	if err := c.Do(t.Context(), &rpc.Call{Prog: 400100, Vers: 1, Proc: 7}, &r); err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*xdr.RPCStatusError](r.Header.Err()); !ok {
		t.Errorf("answered with %v", e)
	}
	r.Release()
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
