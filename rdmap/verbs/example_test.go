package verbs_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// pair connects two engines in memory; with TCP it is the same.
func pair() (a, b *rdmap.Conn) {
	x, y := rdmaptest.Pipe()
	a, b = rdmap.Client(x, nil), rdmap.Server(y, nil)
	done := make(chan error, 1)
	go func() { done <- b.Handshake(context.Background()) }()
	if err := errors.Join(a.Handshake(context.Background()), <-done); err != nil {
		panic(err)
	}
	return a, b
}

// A violation is answered with a Terminate, and each side gets an error of its own type.
func ExampleProtocolError() {
	ctx := context.Background()
	a, b := pair()
	defer a.Close()
	go b.Serve()
	err := a.Read(ctx, make([]byte, 8), 0x1234, 0)
	if told, ok := errors.AsType[*verbs.TerminateError](err); ok {
		fmt.Println("told:", told.Terminate.Code)
	}
	<-b.Done()
	if why, ok := errors.AsType[*verbs.ProtocolError](b.Err()); ok {
		fmt.Println("refused:", why.Code, "by", why.Section)
	}
	// Output:
	// told: 0x0/0x1/0x00 invalid STag
	// refused: 0x0/0x1/0x00 invalid STag by RFC 5040 Section 7.2
}

// A Terminate of Linux siw: its bit-fields come out swapped on the wire.
func ExampleParseTerminate() {
	t, err := verbs.ParseTerminate([]byte{0x21, 0x06, 0, 0})
	fmt.Println(t.String(), err)
	// Output: 0x2/0x1/0x06 (or, as Linux siw lays it out, 0x1/0x2/0x06 untagged, invalid DDP version) <nil>
}

// A sink that is registered for one Read: its STag is invalid as soon as the Read is complete.
func ExampleWR_invalidateSink() {
	ctx := context.Background()
	a, b := pair()
	defer a.Close()
	defer b.Close()
	src, _ := b.Register([]byte("source"), region.RemoteRead)
	go b.Serve()

	mem := make([]byte, 6)
	sink, _ := a.Register(mem, region.ReadSink)
	var w rdmap.Waiter
	w.Reset()
	a.Post([]verbs.WR{{
		Op: verbs.OpReadRequest, STag: src.STag(), Len: 6,
		Sink: sink.STag(), InvalidateSink: true, Done: &w,
	}})
	err := a.Wait(ctx, &w)
	fmt.Println(string(mem), err, sink.Valid())
	// Output: source <nil> false
}
