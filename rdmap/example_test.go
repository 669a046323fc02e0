package rdmap_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
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
		b.Serve() // reads on, until the peer closes
		b.Close()
	}()
	a.Send(ctx, []byte("hello"))
	m, err := a.Recv(ctx)
	fmt.Println(string(m.Data), err)
	// Output: you said hello <nil>
}

// The peer's memory is written and read without its doing anything but serving.
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

// echo answers every message; the answer leaves with those to all other messages
// that were read at once.
type echo struct{}

func (echo) HandleRecv(c *rdmap.Conn, m *rdmap.Message) {
	c.PostRecv(1)
	c.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: m.Data}})
}
func (echo) HandleClose(*rdmap.Conn, error) {}

// answers completes the waiter of the call that is out.
type answers struct {
	w    rdmap.Waiter
	text string
}

func (h *answers) HandleRecv(c *rdmap.Conn, m *rdmap.Message) {
	c.PostRecv(1)
	h.text = string(m.Data) // lent: copied
	h.w.Complete(nil)
}
func (h *answers) HandleClose(_ *rdmap.Conn, err error) { h.w.Complete(err) }

// A call in the fast way: Post, and Wait until an upcall completes the Waiter. The
// goroutine that waits reads the socket itself.
func ExampleConn_Wait() {
	h := &answers{}
	a, b := pair(&rdmap.Config{Handler: h}, &rdmap.Config{Handler: echo{}})
	defer a.Close()
	go b.Serve()
	defer b.Close()

	h.w.Reset()
	a.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: []byte("ping")}})
	err := a.Wait(context.Background(), &h.w)
	fmt.Println(h.text, err)
	// Output: ping <nil>
}

// Work requests posted together leave together: data, then the message that says
// where it is, and takes the STag away again.
func ExampleConn_Post() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	defer b.Close()
	mem := make([]byte, 8)
	reg, _ := b.Register(mem, region.RemoteWrite|region.RemoteInvalidate)

	var w rdmap.Waiter
	w.Reset()
	a.Post([]rdmap.WR{
		{Op: rdmap.OpWrite, STag: reg.STag(), TO: 2, Body: []byte("data")},
		{Op: rdmap.OpSendInvalidate, STag: reg.STag(), Head: []byte("at 2"), Done: &w},
	})
	m, _ := b.Recv(ctx)
	fmt.Printf("%s: %q, revoked %v, valid %v\n", m.Data, mem, m.Invalidated == reg.STag(), reg.Valid())
	fmt.Println(a.Wait(ctx, &w))
	// Output:
	// at 2: "\x00\x00data\x00\x00", revoked true, valid false
	// <nil>
}

// waiting blocks for some messages, after giving the reading role away.
type waiting struct{ release chan struct{} }

func (h waiting) HandleRecv(c *rdmap.Conn, m *rdmap.Message) {
	c.PostRecv(1)
	if string(m.Data) == "slow" && c.HandOff() {
		<-h.release
	}
	c.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: m.Data}})
}
func (waiting) HandleClose(*rdmap.Conn, error) {}

// An upcall that has to block hands the reading role off; the messages behind it do
// not wait.
func ExampleConn_HandOff() {
	ctx := context.Background()
	h := waiting{make(chan struct{})}
	a, b := pair(nil, &rdmap.Config{Handler: h})
	defer a.Close()
	go b.Serve()
	defer b.Close()
	a.Send(ctx, []byte("slow"))
	a.Send(ctx, []byte("quick"))
	first, _ := a.Recv(ctx)
	close(h.release)
	second, _ := a.Recv(ctx)
	fmt.Println(string(first.Data), string(second.Data))
	// Output: quick slow
}

// fetching answers a message that is an STag with what is there.
type fetching struct {
	mem  []byte
	sink region.STag
	c    *rdmap.Conn
}

func (h *fetching) HandleRecv(c *rdmap.Conn, m *rdmap.Message) {
	c.PostRecv(1)
	h.c = c
	c.Post([]rdmap.WR{{
		Op: rdmap.OpReadRequest, STag: region.STag(binary.BigEndian.Uint32(m.Data)),
		Sink: h.sink, Len: uint32(len(h.mem)), Done: h,
	}})
}
func (h *fetching) HandleClose(*rdmap.Conn, error) {}

// Complete is for a Read that has failed, or that another goroutine completes.
func (h *fetching) Complete(err error) {
	if err == nil {
		h.CompleteUpcall(h.c)
	}
}

func (h *fetching) CompleteUpcall(c *rdmap.Conn) {
	c.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: h.mem}})
}

// A server goes on where it reads, when what it has asked for is there.
func ExampleUpcallCompleter() {
	ctx := context.Background()
	h := &fetching{mem: make([]byte, 4)}
	a, b := pair(nil, &rdmap.Config{Handler: h})
	defer a.Close()
	defer b.Close()
	reg, _ := b.Register(h.mem, region.ReadSink)
	h.sink = reg.STag()
	go b.Serve()
	src, _ := a.Register([]byte("data"), region.RemoteRead)
	a.Send(ctx, binary.BigEndian.AppendUint32(nil, uint32(src.STag())))
	m, err := a.Recv(ctx)
	fmt.Printf("%s %v\n", m.Data, err)
	// Output: data <nil>
}

// The upper layers' private data travels in the startup frames; the responder
// decides.
func ExampleConn_Handshake() {
	x, y := rdmaptest.Pipe()
	a := rdmap.Client(x, &rdmap.Config{PrivateData: []byte("version 9")})
	b := rdmap.Server(y, &rdmap.Config{Accept: func(r *mpa.Request) ([]byte, error) {
		return []byte("version 1 only"), fmt.Errorf("cannot do %s", r.PrivateData)
	}})
	done := make(chan error, 1)
	go func() { done <- b.Handshake(context.Background()) }()
	err := a.Handshake(context.Background())
	if rej, ok := errors.AsType[*rdmap.RejectError](err); ok {
		fmt.Printf("rejected: %s\n", rej.PrivateData)
	}
	fmt.Println(<-done)
	// Output:
	// rejected: version 1 only
	// rdmap: handshake: cannot do version 9
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

// A violation is answered by a Terminate; each side gets an error of its own type.
func ExampleProtocolError() {
	ctx := context.Background()
	a, b := pair(nil, nil)
	defer a.Close()
	go b.Serve()
	err := a.Read(ctx, make([]byte, 8), 0x1234, 0)
	if told, ok := errors.AsType[*rdmap.TerminateError](err); ok {
		fmt.Println("told:", told.Terminate.Code)
	}
	<-b.Done()
	if why, ok := errors.AsType[*rdmap.ProtocolError](b.Err()); ok {
		fmt.Println("refused:", why.Code, "by", why.Section)
	}
	// Output:
	// told: 0x0/0x1/0x00 invalid STag
	// refused: 0x0/0x1/0x00 invalid STag by RFC 5040 Section 7.2
}

// A Terminate of Linux siw: its bit-fields come out swapped on the wire.
func ExampleParseTerminate() {
	t, err := rdmap.ParseTerminate([]byte{0x21, 0x06, 0, 0})
	fmt.Println(t.String(), err)
	// Output: 0x2/0x1/0x06 (or, as Linux siw lays it out, 0x1/0x2/0x06 untagged, invalid DDP version) <nil>
}

// Connections that may need much memory for Sends share a pool of their own.
func ExampleNewPool() {
	pool := rdmap.NewPool(1 << 20)
	a, b := pair(&rdmap.Config{Pool: pool}, nil)
	b.Close()
	a.Close()
	fmt.Println(pool.Used())
	// Output: 0
}
