package transport_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// events is a Trace that records its calls, without the XIDs.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(format string, a ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf(format, a...))
}

func (e *events) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := strings.Join(e.list, "; ")
	e.list = nil
	return s
}

// trace returns the hooks.
func (e *events) trace() *rpc.Trace {
	return &rpc.Trace{
		Registered:  func(_ uint32, k rpc.ChunkKind, n int) { e.add("registered %v %d", k, n) },
		Sent:        func(_ uint32, f rpcrdma.Form, n int) { e.add("sent %v %d", f, n) },
		Replied:     func(_ uint32, n int) { e.add("replied %d", n) },
		Invalidated: func(uint32) { e.add("invalidated") },
		Ended:       func(_ uint32, err error) { e.add("ended %v", err) },
		Received:    func(_ uint32, n int) { e.add("received %d", n) },
		Pulled:      func(_ uint32, n int) { e.add("pulled %d", n) },
		Answered:    func(_ uint32, n, written int) { e.add("answered %d written %d", n, written) },
	}
}

// TestTrace: the trace of a call in each form, at both ends.
func TestTrace(t *testing.T) {
	var ce, se events
	cc, sc := testConfig(), testConfig()
	cc.Trace, sc.Trace = ce.trace(), se.trace()
	_, c := pair(t, newEcho(), sc, cc)
	for _, tc := range []struct {
		name           string
		call           func() *rpc.Call
		client, server string
	}{
		{
			"inline", func() *rpc.Call { n := nullCall; return &n },
			"sent short 68; replied 52; ended <nil>",
			"received 68; answered 52 written 0",
		},
		{
			"read chunk", func() *rpc.Call { return itemCall(procSum, filled(5000)) },
			"registered read 5000; sent chunked 96; replied 60; invalidated; ended <nil>",
			"received 96; pulled 5000; answered 60 written 0",
		},
		{
			"write chunk", func() *rpc.Call {
				call := wordCall(procFill, 6000)
				call.Sink = make([]byte, 8000)
				return call
			},
			"registered write 8000; sent short 96; replied 80; invalidated; ended <nil>",
			"received 96; answered 80 written 6000",
		},
		{
			"reply chunk", func() *rpc.Call {
				call := wordCall(procList, 2000)
				call.MaxResults = 8000
				return call
			},
			"registered reply 8024; sent short 92; replied 48; invalidated; ended <nil>",
			"received 92; answered 48 written 8024",
		},
	} {
		call := tc.call()
		mustDo(t, c, call)
		waitFor(t, "the server's word", func() bool {
			se.mu.Lock()
			defer se.mu.Unlock()
			return len(se.list) > 0 && strings.HasPrefix(se.list[len(se.list)-1], "answered")
		})
		if got := ce.take(); got != tc.client {
			t.Errorf("%s, client:\n%s, want\n%s", tc.name, got, tc.client)
		}
		if got := se.take(); got != tc.server {
			t.Errorf("%s, server:\n%s, want\n%s", tc.name, got, tc.server)
		}
	}
	c.Close()
	if err := try(t, c, &nullCall); err == nil {
		t.Error("a call after Close")
	}
	if got := ce.take(); !strings.HasPrefix(got, "ended transport: call") {
		t.Errorf("a call that fails: %s", got)
	}
}
