package rdmap_test

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// Connections of one server share its receives; when they run low it hears of that
// once and posts more.
func ExampleRecvQueue() {
	ctx := context.Background()
	q := rdmap.NewRecvQueue(4)
	low := make(chan struct{})
	q.Arm(3, func() { q.Post(10); close(low) })

	cfg := &rdmap.Config{RecvQueue: q, RecvQuota: 8}
	a, server1 := pair(nil, cfg)
	b, server2 := pair(nil, cfg)
	defer a.Close()
	defer b.Close()
	a.Send(ctx, []byte("one"))
	b.Send(ctx, []byte("two"))
	<-low
	m1, _ := server1.Recv(ctx) // posts its receive again, as PostRecv does
	m2, _ := server2.Recv(ctx)
	fmt.Printf("%s, %s, %d receives posted\n", m1.Data, m2.Data, q.Posted())
	// Output: one, two, 14 receives posted
}

// A consumer sleeps until a message asks for an event, and then takes all there are.
func ExampleConn_WaitSolicited() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	defer b.Close()
	go a.Post([]rdmap.WR{
		{Op: rdmap.OpSend, Head: []byte("part 1")},
		{Op: rdmap.OpSend, Head: []byte("part 2")},
		{Op: rdmap.OpSendSE, Head: []byte("part 3, the last")},
	})
	b.WaitSolicited(ctx)
	for m := b.TryRecv(); m != nil; m = b.TryRecv() {
		fmt.Println(string(m.Data))
	}
	// Output:
	// part 1
	// part 2
	// part 3, the last
}

// A sink that is registered for one Read: its STag is invalid as soon as that is over.
func ExampleWR_invalidateSink() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	defer b.Close()
	src, _ := b.Register([]byte("source"), region.RemoteRead)
	go b.Serve()

	mem := make([]byte, 6)
	sink, _ := a.Register(mem, region.ReadSink)
	var w rdmap.Waiter
	w.Reset()
	a.Post([]rdmap.WR{{
		Op: rdmap.OpReadRequest, STag: src.STag(), Len: 6,
		Sink: sink.STag(), InvalidateSink: true, Done: &w,
	}})
	err := a.Wait(ctx, &w)
	fmt.Println(string(mem), err, sink.Valid())
	// Output: source <nil> false
}
