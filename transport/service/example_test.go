package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
)

// A service that keeps blobs of up to 16 MiB.

type saveArgs struct {
	Name string
	Data []byte `xdr:"ddp"` // travels in chunks when it is large
}

type loadArgs struct{ Name string }

type loadRes struct {
	Status status `xdr:"union"` // 0: success
	Data   []byte `xdr:"unioncase=0,ddp"`
}

type status uint32

func (s status) Error() string { return fmt.Sprintf("blobs: status %d", uint32(s)) }

const notFound status = 2

var (
	save   = service.Proc[saveArgs, service.Void]{Prog: 0x20000001, Vers: 1, Proc: 1}
	load   = service.Proc[loadArgs, loadRes]{Prog: 0x20000001, Vers: 1, Proc: 2}
	config = &transport.Config{Binding: service.Bind(save, load), MaxPayload: 17 << 20}
)

// serveBlobs serves on loopback.
func serveBlobs() (addr string, stop func() error) {
	var blobs sync.Map // handlers run at the same time
	mux := new(service.Mux)
	service.Handle(mux, save, func(_ context.Context, args *saveArgs) (*service.Void, error) {
		blobs.Store(args.Name, bytes.Clone(args.Data)) // it is lent
		return nil, nil
	})
	service.Handle(mux, load, func(_ context.Context, args *loadArgs) (*loadRes, error) {
		data, ok := blobs.Load(args.Name)
		if !ok {
			return nil, notFound
		}
		return &loadRes{Data: data.([]byte)}, nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &transport.Server{Handler: mux, Config: config}
	go srv.ServeShared(l) // RDMA and TCP
	return l.Addr().String(), srv.Close
}

func Example() {
	addr, stop := serveBlobs()
	defer stop()
	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", addr, config)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	data := bytes.Repeat([]byte("stag"), 4<<20)
	if err := service.Invoke(ctx, c, save, &saveArgs{"a", data}, nil); err != nil {
		log.Fatal(err)
	}
	got := loadRes{Data: make([]byte, 16<<20)} // where it will arrive
	if err := service.Invoke(ctx, c, load, &loadArgs{"a"}, &got); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Equal(got.Data, data), c.Stats().OctetsRead, c.Stats().OctetsWritten)
	// Output: true 16777216 16777216
}

// What goes wrong in a handler is the error of the call.
func ExampleHandle() {
	type args struct{ A, B int32 }
	type res struct {
		Status   status `xdr:"union"`
		Quotient int32  `xdr:"unioncase=0"`
	}
	const byZero status = 7
	divide := service.Proc[args, res]{Prog: 0x20000005, Vers: 1, Proc: 1}
	mux := new(service.Mux)
	service.Handle(mux, divide, func(_ context.Context, a *args) (*res, error) {
		if a.B == 0 {
			return nil, byZero
		}
		return &res{Quotient: a.A / a.B}, nil
	})
	c, stop := connect(mux, service.Bind(divide))
	defer stop()
	ctx := context.Background()
	var got res
	err := service.Invoke(ctx, c, divide, &args{7, 2}, &got)
	fmt.Println(got.Quotient, err)
	err = service.Invoke(ctx, c, divide, &args{7, 0}, &got)
	fmt.Println(errors.Is(err, byZero), err)
	divide.Proc = 2
	err = service.Invoke(ctx, c, divide, &args{7, 2}, &got)
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// true blobs: status 7
	// service: program 0x20000005, version 1, procedure 2: xdr: rpc call refused: PROC_UNAVAIL
}

// A procedure that must not run twice, beside the programs of another handler.
func ExampleMux() {
	type total struct{ Sum uint64 }
	add := service.Proc[struct{ N uint64 }, total]{Prog: 0x20000003, Vers: 1, Proc: 1, Once: true}
	var sum atomic.Uint64
	mux := &service.Mux{Next: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
		fmt.Println("a call of program", req.Prog)
	})}
	service.Handle(mux, add, func(_ context.Context, a *struct{ N uint64 }) (*total, error) {
		return &total{sum.Add(a.N)}, nil
	})
	c, stop := connect(mux, service.Bind(add))
	defer stop()

	var got total
	err := service.Invoke(context.Background(), c, add, &struct{ N uint64 }{3}, &got)
	fmt.Println(got.Sum, err)
	var reply rpc.Reply
	err = c.Do(context.Background(), &rpc.Call{Prog: 7, Vers: 1}, &reply)
	fmt.Println(reply.Header.Accept, err)
	reply.Release()
	// Output:
	// 3 <nil>
	// a call of program 7
	// SUCCESS <nil>
}

// What is larger than MaxPayload is fetched in pieces, into one slice.
func Example_pieces() {
	type args struct {
		Offset uint64
		Count  uint32
	}
	type res struct {
		Data []byte `xdr:"ddp"`
	}
	read := service.Proc[args, res]{Prog: 0x20000006, Vers: 1, Proc: 1}
	object := bytes.Repeat([]byte("0123456789"), 300_000)
	mux := new(service.Mux)
	service.Handle(mux, read, func(_ context.Context, a *args) (*res, error) {
		from := min(a.Offset, uint64(len(object)))
		return &res{object[from:min(from+uint64(a.Count), uint64(len(object)))]}, nil
	})
	c, stop := connect(mux, service.Bind(read))
	defer stop()

	got := make([]byte, 0, 4<<20)
	for pieces := 1; ; pieces++ {
		piece := res{got[len(got) : len(got) : len(got)+1<<20]} // arrives where it belongs
		if err := service.Invoke(context.Background(), c, read, &args{uint64(len(got)), 1 << 20}, &piece); err != nil {
			log.Fatal(err)
		}
		if len(piece.Data) == 0 {
			fmt.Println(bytes.Equal(got, object), "after", pieces)
			return
		}
		got = got[:len(got)+len(piece.Data)]
	}
	// Output: true after 4
}

// A service is tested by calls through a pipe: what the handler returns has been on the wire.
func Example_tableTest() {
	type args struct{ N int32 }
	type res struct {
		Status status `xdr:"union"`
		Half   int32  `xdr:"unioncase=0"`
	}
	const odd status = 9
	halve := service.Proc[args, res]{Prog: 0x20000007, Vers: 1, Proc: 1}
	mux := new(service.Mux)
	service.Handle(mux, halve, func(_ context.Context, a *args) (*res, error) {
		if a.N%2 != 0 {
			return nil, odd
		}
		return &res{Half: a.N / 2}, nil
	})
	server, client := net.Pipe()
	srv := &transport.Server{Handler: mux}
	go srv.ServeStreamConn(server)
	defer srv.Close()
	c, err := transport.NewStreamClient(context.Background(), client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		n, want int32
		err     error
	}{{4, 2, nil}, {-6, -3, nil}, {7, 0, odd}} {
		var got res
		err := service.Invoke(context.Background(), c, halve, &args{tt.n}, &got)
		fmt.Println(got.Half == tt.want, errors.Is(err, tt.err))
	}
	// Output:
	// true true
	// true true
	// true true
}

// Shutdown answers the calls that have come, and takes no more.
func Example_shutdown() {
	wait := service.Proc[service.Void, service.Void]{Prog: 0x20000008, Vers: 1, Proc: 1}
	came, leave := make(chan struct{}), make(chan struct{})
	mux := new(service.Mux)
	service.Handle(mux, wait, func(context.Context, *service.Void) (*service.Void, error) {
		close(came)
		<-leave
		return nil, nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &transport.Server{Handler: mux}
	served := make(chan error)
	go func() { served <- srv.ServeShared(l) }()
	c, err := transport.Dial(context.Background(), "tcp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error)
	go func() { answered <- service.Invoke(context.Background(), c, wait, nil, nil) }()
	<-came

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // then the rest is cut off
	defer cancel()
	down := make(chan error)
	go func() { down <- srv.Shutdown(ctx) }()
	fmt.Println(<-served)
	close(leave)
	fmt.Println(<-answered, <-down)
	// Output:
	// transport: server closed
	// <nil> <nil>
}

// connect serves mux, and returns a client.
func connect(mux *service.Mux, b chunks.Binding) (*transport.Client, func()) {
	cfg := &transport.Config{Binding: b}
	srv := &transport.Server{Handler: mux, Config: cfg}
	a, z := rdmaptest.Pipe()
	go srv.ServeConn(z)
	c, err := transport.NewClient(context.Background(), a, cfg)
	if err != nil {
		log.Fatal(err)
	}
	return c, func() { c.Close(); srv.Close() }
}

// An Interceptor that counts calls for Prometheus, and how long they take, by procedure, transport and outcome. It counts
// few series, whatever clients send: it does not run for procedures that nobody serves.
func ExampleInterceptor() {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rpc_service_call_duration_seconds",
		Buckets: prometheus.ExponentialBuckets(16e-6, 4, 10), // from what memory answers to 4 s
	}, []string{"procedure", "transport", "outcome"})
	prometheus.MustRegister(took)
	count := func(ctx context.Context, req *rpc.Request, next func(context.Context) error) error {
		begun, outcome := time.Now(), "error"
		defer func() { // also when the handler panics
			took.WithLabelValues(fmt.Sprint(req.Proc), req.Network, outcome).Observe(time.Since(begun).Seconds())
		}()
		err := next(ctx)
		if err == nil {
			outcome = "ok"
		}
		return err
	}
	mux := &service.Mux{Intercept: []service.Interceptor{count}}
	service.Handle(mux, load, func(context.Context, *loadArgs) (*loadRes, error) { return nil, notFound })

	// A transport.Server does this.
	req := &rpc.Request{CallHeader: xdr.CallHeader{Prog: load.Prog, Vers: load.Vers, Proc: load.Proc}, Network: "rdma", Args: make([]byte, 4)}
	mux.ServeRPC(context.Background(), req, new(rpc.Response))
	fmt.Println(testutil.CollectAndCount(took), "series")
	// Output: 1 series
}
