package transport_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
)

// BenchmarkNull is one caller's NULL ping-pong, both ends in this process.
func BenchmarkNull(b *testing.B) {
	b.Run("rdma", func(b *testing.B) {
		_, c := pair(b, newEcho(), nil, nil)
		benchNull(b, c)
	})
	b.Run("stream", func(b *testing.B) {
		_, c := startStream(b, newEcho(), nil)
		benchNull(b, c)
	})
}

func benchNull(b *testing.B, c rpc.Caller) {
	ctx := context.Background()
	var r rpc.Reply
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Do(ctx, &nullCall, &r); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

// BenchmarkCallers is 64 callers on one connection, calls of about 150 octets,
// against record-marked TCP with a goroutine per request.
func BenchmarkCallers(b *testing.B) {
	b.Run("rdma", func(b *testing.B) {
		_, c := pair(b, newEcho(), nil, nil)
		benchCallers(b, c)
	})
	b.Run("stream", func(b *testing.B) {
		_, c := startStream(b, newEcho(), nil)
		benchCallers(b, c)
	})
}

func benchCallers(b *testing.B, c rpc.Caller) {
	ctx := context.Background()
	payload := filled(100)
	b.ReportAllocs()
	b.SetParallelism(32) // times GOMAXPROCS
	b.RunParallel(func(pb *testing.PB) {
		call := echoCall(payload)
		var r rpc.Reply
		for pb.Next() {
			if err := c.Do(ctx, call, &r); err != nil {
				b.Error(err)
				return
			}
			r.Release()
		}
	})
}

// BenchmarkRead moves 1 MiB by RDMA Write, BenchmarkWrite by RDMA Read.
func BenchmarkRead(b *testing.B) {
	_, c := pair(b, newEcho(), nil, nil)
	call := wordCall(procFill, 1<<20)
	call.Sink, call.MaxResults = make([]byte, 1<<20), 16
	benchBulk(b, c, call)
}

func BenchmarkWrite(b *testing.B) {
	_, c := pair(b, newEcho(), nil, nil)
	benchBulk(b, c, itemCall(procSum, filled(1<<20)))
}

func benchBulk(b *testing.B, c rpc.Caller, call *rpc.Call) {
	ctx := context.Background()
	var r rpc.Reply
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Do(ctx, call, &r); err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}
