package verbs_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
