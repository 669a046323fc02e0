package service_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
	"go.uber.org/zap"
)

// The types that hostile peers are tried on: one of each form that a peer chooses something in.
type (
	listed struct {
		Name  string
		Names []string
		Lists [][]uint32
		Flag  bool
		Small int8
		Tiny  uint16
		Next  *listed `xdr:"optional"`
	}
	// armed has its item in an arm of a union in a structure, behind a list.
	armed struct {
		Names []string
		In    struct {
			Kind uint32 `xdr:"union"`
			Data []byte `xdr:"unioncase=0,ddp"`
			Code uint32 `xdr:"unioncase=1"`
		}
		Tail uint32
	}
)

var (
	list = service.Proc[listed, listed]{Prog: prog, Vers: 7, Proc: 1}
	arm  = service.Proc[armed, armed]{Prog: prog, Vers: 7, Proc: 2}
)

// hostileServer serves list and arm, and notes the arguments of the last call. runs counts calls.
func hostileServer(t *testing.T) (addr string, last *atomic.Value, runs *atomic.Int64) {
	t.Helper()
	last, runs = new(atomic.Value), new(atomic.Int64)
	m := new(service.Mux)
	service.Handle(m, list, func(_ context.Context, a *listed) (*listed, error) {
		runs.Add(1)
		b, err := xdrreflect.Marshal(a)
		last.Store(b)
		return nil, err
	})
	service.Handle(m, arm, func(_ context.Context, a *armed) (*armed, error) {
		runs.Add(1)
		b, err := xdrreflect.Marshal(a)
		last.Store(b)
		return a, err
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: m, Config: &transport.Config{Binding: service.Bind(list, arm), Logger: zap.NewNop()}}
	served := make(chan error, 1)
	go func() { served <- s.ServeShared(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return l.Addr().String(), last, runs
}

func octets(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// TestHostileArguments sends arguments that break their type, over both transports: GARBAGE_ARGS, the handler does not
// run, and the connection lives on.
func TestHostileArguments(t *testing.T) {
	const most = 1<<32 - 1
	addr, last, runs := hostileServer(t)
	good := octets(0, 0, 0, 0, 0, 0, 0)
	rdma, err := transport.Dial(t.Context(), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()
	tcp, err := transport.DialStream(t.Context(), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	if err := tcp.Do(t.Context(), &rpc.Call{Prog: prog, Vers: 7}, new(rpc.Reply)); err != nil { // the first octets come in time
		t.Fatal(err)
	}
	nest := bytes.Repeat(octets(0, 0, 0, 0, 0, 0, 1), 20_000)
	for name, c := range map[string]rpc.Caller{"rdma": rdma, "tcp": tcp} {
		for _, tt := range []struct {
			name string
			proc uint32
			args []byte
			ok   bool
		}{
			{"legal", 1, good, true},
			{"name of 2^32-1", 1, octets(most, 0, 0, 0, 0, 0, 0), false},
			{"name of 2^32-4", 1, octets(most-3, 0, 0, 0, 0, 0, 0), false},
			{"name of 2^31", 1, octets(1<<31, 0, 0, 0, 0, 0, 0), false},
			{"huge name that is there", 1, append(octets(900_000), make([]byte, 900_000+24)...), true},
			{"names of 2^32-1", 1, octets(0, most, 0, 0, 0, 0, 0), false},
			{"names of 2^30", 1, octets(0, 1<<30, 0, 0, 0, 0, 0), false},
			{"lists of 2^32-1", 1, octets(0, 0, most, 0, 0, 0, 0), false},
			{"list in lists of 2^32-1", 1, octets(0, 0, 2, 0, most, 0, 0, 0, 0), false},
			{"nested lists", 1, append(octets(0, 0, 200_000), make([]byte, 800_000+16)...), true},
			{"bool of 2", 1, octets(0, 0, 0, 2, 0, 0, 0), false},
			{"bool of 2^32-1", 1, octets(0, 0, 0, most, 0, 0, 0), false},
			{"int8 of 128", 1, octets(0, 0, 0, 0, 128, 0, 0), false},
			{"int8 of -129", 1, octets(0, 0, 0, 0, most-128, 0, 0), false},
			{"int8 of -128", 1, octets(0, 0, 0, 0, most-127, 0, 0), true},
			{"uint16 of 2^16", 1, octets(0, 0, 0, 0, 0, 1<<16, 0), false},
			{"optional of 2", 1, octets(0, 0, 0, 0, 0, 0, 2), false},
			{"optional that is cut", 1, octets(0, 0, 0, 0, 0, 0, 1), false},
			{"recursion", 1, append(slices.Clip(nest), good...), false},
			{"deep", 1, append(nest[:28*4000:28*4000], good...), true},
			{"trailing octets", 1, octets(0, 0, 0, 0, 0, 0, 0, 0), false},
			{"nothing", 1, nil, false},
			{"item of 2^32-1", 2, octets(0, 0, most, 0), false},
			{"item of 2^31-1", 2, octets(0, 0, 1<<31-1, 0), false},
			{"item over the tail", 2, octets(0, 0, 4, 0), false},
			{"item and trailing octets", 2, octets(0, 0, 4, 0, 0, 0), false},
			{"another arm", 2, octets(0, 1, 9, 0), true},
			{"another arm with an item", 2, octets(0, 1, 9, 4, 0, 0), false},
			{"no arm", 2, octets(0, 77, 9), true},
			{"names of 2^32-1 before the item", 2, octets(most, 0, 0, 0), false},
		} {
			runs.Store(0)
			begun := time.Now()
			var reply rpc.Reply
			err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: 7, Proc: tt.proc, Args: tt.args, MaxResults: 1 << 20}, &reply)
			want, ran := xdr.GarbageArgs, int64(0)
			if tt.ok {
				want, ran = xdr.Success, 1
			}
			if err != nil || reply.Header.Accept != want || runs.Load() != ran {
				t.Errorf("%s, %s: %v, %v after %d runs, want %v", name, tt.name, reply.Header.Accept, err, runs.Load(), want)
			} else if tt.ok && !bytes.Equal(last.Load().([]byte), tt.args) {
				t.Errorf("%s, %s: the handler saw others", name, tt.name)
			}
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("%s, %s: took %v", name, tt.name, d)
			}
			reply.Release()
		}
	}
}

// TestItemForNothing: data that a Caller has received apart, for results that have no place for them, are not results.
func TestItemForNothing(t *testing.T) {
	for _, results := range [][]byte{octets(0, 1, 7, 5), octets(0, 77, 5)} {
		c := caller(func(call *rpc.Call, reply *rpc.Reply) {
			reply.Results, reply.Item = results, call.Sink[:8]
		})
		var res armed
		res.In.Data = make([]byte, 16)
		err := service.Invoke(t.Context(), c, arm, nil, &res)
		if _, ok := errors.AsType[*xdr.DecodeError](err); !ok || !errors.Is(err, xdr.ErrTrailing) {
			t.Errorf("%x: %v, want ErrTrailing", results, err)
		}
	}
}
