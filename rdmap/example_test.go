package rdmap_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// pair connects two engines in memory; with TCP it is the same.
func pair(ca, cb *rdmap.Config) (a, b *rdmap.Conn) {
	x, y := rdmaptest.Pipe()
	a, b = rdmap.Client(x, ca), rdmap.Server(y, cb)
	done := make(chan error, 1)
	go func() { done <- b.Handshake(context.Background()) }()
	if err := errors.Join(a.Handshake(context.Background()), <-done); err != nil {
		panic(err)
	}
	return a, b
}

// Two sides exchange messages with the blocking calls.
func Example() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	go func() {
		m, _ := b.Recv(ctx)
		b.Send(ctx, append([]byte("you said "), m.Data...))
		b.Serve() // continues to read until the peer closes
		b.Close()
	}()
	a.Send(ctx, []byte("hello"))
	m, err := a.Recv(ctx)
	fmt.Println(string(m.Data), err)
	// Output: you said hello <nil>
}

// The peer's memory is written and read, and the peer only has to call Serve.
func ExampleConn_Read() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	mem := make([]byte, 64)
	reg, _ := b.Register(mem, region.RemoteRead|region.RemoteWrite)
	go b.Serve()
	defer b.Close()

	a.Write(ctx, []byte("one-sided"), reg.STag(), 16)
	sink := make([]byte, 9)
	err := a.Read(ctx, sink, reg.STag(), 16)
	fmt.Println(string(sink), err)
	// Output: one-sided <nil>
}

// echo answers every message. The answer is sent together with those to all other messages of the same
// read.
type echo struct{}

func (echo) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}
func (echo) HandleClose(*rdmap.Conn, error) {}

// Work requests that are posted together are sent together: data, then the message that says where the
// data is and invalidates the STag.
func ExampleConn_Post() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	defer b.Close()
	mem := make([]byte, 8)
	reg, _ := b.Register(mem, region.RemoteWrite|region.RemoteInvalidate)

	var w rdmap.Waiter
	w.Reset()
	a.Post([]verbs.WR{
		{Op: verbs.OpWrite, STag: reg.STag(), TO: 2, Body: []byte("data")},
		{Op: verbs.OpSendInvalidate, STag: reg.STag(), Head: []byte("at 2"), Done: &w},
	})
	m, _ := b.Recv(ctx)
	fmt.Printf("%s: %q, revoked %v, valid %v\n", m.Data, mem, m.Invalidated == reg.STag(), reg.Valid())
	fmt.Println(a.Wait(ctx, &w))
	// Output:
	// at 2: "\x00\x00data\x00\x00", revoked true, valid false
	// <nil>
}

// Serve returns why the connection ended.
func ExampleConn_Serve() {
	a, b := pair(nil, &rdmap.Config{Handler: echo{}})
	ended := make(chan error)
	go func() { ended <- b.Serve() }()
	a.Close()
	err := <-ended
	fmt.Println(errors.Is(err, io.EOF), err)
	// Output: true rdmap: read: EOF
}
