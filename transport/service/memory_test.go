package service_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// names are arguments that grow: an empty string is 4 octets, and 16 in memory.
type names struct{ Names []string }

var (
	grow     = service.Proc[names, service.Void]{Prog: prog, Vers: 8, Proc: 1}
	growOnce = service.Proc[names, service.Void]{Prog: prog, Vers: 8, Proc: 2, Once: true}
)

// growServer serves f within a limit of memory. dial returns a client over RDMA and TCP in turn.
func growServer(t *testing.T, memory int64, f func(n int)) (s *transport.Server, dial func(i int) rpc.Caller, logs *observer.ObservedLogs) {
	t.Helper()
	m := new(service.Mux)
	handler := func(_ context.Context, a *names) (*service.Void, error) { f(len(a.Names)); return nil, nil }
	service.Handle(m, grow, handler)
	service.Handle(m, growOnce, handler)
	core, logs := observer.New(zapcore.WarnLevel)
	s = &transport.Server{Handler: m, Config: &transport.Config{MaxPayload: int(memory / 2), Limits: transport.Limits{Memory: memory}, Logger: zap.New(core)}}
	var ends []func() error
	dial = func(i int) rpc.Caller {
		a, z := rdmaptest.Pipe()
		serve := s.ServeConn
		if i%2 > 0 {
			serve = s.ServeStreamConn
		}
		served := make(chan error, 1)
		go func() { served <- serve(z) }()
		var c rpc.Caller
		var err error
		if i%2 == 0 {
			c, err = transport.NewClient(t.Context(), a, nil)
		} else {
			c, err = transport.NewStreamClient(context.Background(), a, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c.Close, func() error { return <-served })
		return c
	}
	t.Cleanup(func() {
		for _, end := range ends {
			_ = end()
		}
		s.Close()
	})
	return s, dial, logs
}

// growing returns the arguments with n empty names.
func growing(n int) []byte { return append(xdr.AppendUint32(nil, uint32(n)), make([]byte, 4*n)...) }

// TestDecodedMemory: what arguments are decoded to counts in Limits.Memory. 64 connections have calls that grow fourfold,
// and handlers that keep them; the rest waits, a short call does not, and in the end all are answered.
func TestDecodedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns, each, memory = 64, 25_000, 2 << 20
		var now, most atomic.Int64 // handlers with their arguments
		leave := make(chan struct{})
		s, dial, _ := growServer(t, memory, func(n int) {
			if n == each {
				most.Store(max(most.Load(), now.Add(1)))
				<-leave
				now.Add(-1)
			}
		})
		done := make(chan error, conns)
		for i := range conns {
			c, proc := dial(i), uint32(1+i/2%2)
			go func() {
				var reply rpc.Reply
				err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: 8, Proc: proc, Args: growing(each)}, &reply)
				if err == nil {
					err = reply.Header.Err()
				}
				done <- err
			}()
		}
		for left := conns; left > 0; left-- {
			synctest.Wait()
			if held := s.Stats().Held; held > memory+each*20 {
				t.Errorf("%d octets held of %d", held, memory)
			}
			if left == conns {
				for i := range 2 {
					if err := service.Invoke(t.Context(), dial(i), grow, &names{[]string{"a", "b"}}, nil); err != nil {
						t.Error("a short call beside them:", err)
					}
				}
			}
			leave <- struct{}{}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := most.Load(); n*each*16 > memory+each*16 {
			t.Errorf("%d handlers had %d octets each at the same time; the limit is %d", n, each*16, memory)
		}
		synctest.Wait() // a client has its reply before the server gives back what the call held
		if held := s.Stats().Held; held != 0 {
			t.Errorf("%d octets held in the end", held)
		}
	})
}

// TestDecodedTooMuch: arguments that the whole of Limits.Memory has no room for are refused, said and counted.
func TestDecodedTooMuch(t *testing.T) {
	var ran atomic.Int64
	s, dial, logs := growServer(t, 2<<20, func(int) { ran.Add(1) })
	for i := range 2 {
		c := dial(i)
		var reply rpc.Reply
		err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: 8, Proc: 2, Args: growing(200_000)}, &reply)
		if err != nil || reply.Header.Accept != xdr.SystemErr {
			t.Errorf("%v, %v", reply.Header.Accept, err)
		}
		reply.Release()
		if ran.Load() != int64(i) || s.Stats().Errors != uint64(i+1) || logs.FilterMessageSnippet("Limits.Memory").Len() != i+1 {
			t.Errorf("%d runs, %d errors, %v", ran.Load(), s.Stats().Errors, logs.All())
		}
		if err := service.Invoke(t.Context(), c, grow, &names{[]string{"a"}}, nil); err != nil {
			t.Error(err)
		}
	}
}
