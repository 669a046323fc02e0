package rdmaptest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Two engines in one process, without a network.
func ExamplePipe() {
	a, b := rdmaptest.Pipe()
	x, y := rdmap.Client(a, nil), rdmap.Server(b, nil)
	ctx := context.Background()
	go y.Handshake(ctx)
	if err := x.Handshake(ctx); err != nil {
		fmt.Println(err)
	}
	_ = x.Send(ctx, []byte("hello"))
	m, err := y.Recv(ctx)
	fmt.Printf("%s %v\n", m.Data, err)
	x.Abort(nil)
	y.Abort(nil)
	// Output: hello <nil>
}

// A pipe with a small buffer, for tests of what happens when it is full.
func ExamplePipeSize() {
	a, b := rdmaptest.PipeSize(4)
	n, err := a.Write([]byte("hell"))
	fmt.Println(n, err)
	_ = a.SetWriteDeadline(time.Now().Add(time.Millisecond))
	n, err = a.Write([]byte("o"))
	fmt.Println(n, err)
	a.Reset()
	_, err = b.Read(make([]byte, 9))
	fmt.Println(err)
	// Output:
	// 4 <nil>
	// 0 i/o timeout
	// connection reset by peer
}

// A connection with four faults, as its user sees it.
func ExampleWrap() {
	a, b := rdmaptest.Pipe()
	_, _ = io.WriteString(a, "hello, world")
	c := &rdmaptest.Record{Conn: rdmaptest.Wrap(b, rdmaptest.Faults{
		In: rdmaptest.Fault{
			MaxPiece: 4,                          // octets come in odd pieces,
			Delay:    time.Microsecond,           // late,
			Flip:     []int64{2},                 // with the first letter in upper case,
			Cut:      rdmaptest.CutEnd, CutAt: 9, // and only nine of them
		},
		Seed: 1,
	})}
	text, err := io.ReadAll(c)
	fmt.Printf("%s %v in more than one piece: %v\n", text, err, len(c.Events()) > 3)
	// Output: Hello, wo <nil> in more than one piece: true
}

// A connection that works at first and is then unplugged.
func ExampleFaulty_Set() {
	a, b := rdmaptest.Pipe()
	c := rdmaptest.Wrap(b, rdmaptest.Faults{})
	_, _ = c.Write([]byte("heard"))
	c.Set(rdmaptest.Faults{Out: rdmaptest.Fault{Cut: rdmaptest.CutSilence}})
	n, err := c.Write([]byte("unheard"))
	fmt.Println(n, err)
	_ = c.Close()
	text, _ := io.ReadAll(a)
	_, out := c.Offsets()
	fmt.Printf("%s, %d octets passed\n", text, out)
	// Output:
	// 7 <nil>
	// heard, 5 octets passed
}

// A reset at a moment that the test chooses.
func ExampleFaulty_Reset() {
	a, b := rdmaptest.Pipe()
	c := rdmaptest.Wrap(b, rdmaptest.Faults{})
	c.Reset()
	_, err := a.Read(make([]byte, 1))
	fmt.Println(err)
	// Output: connection reset by peer
}

// What passed through a connection, with directions and times.
func ExampleRecord() {
	a, b := rdmaptest.Pipe()
	rec := &rdmaptest.Record{Conn: b}
	_, _ = io.WriteString(a, "ping")
	_ = a.CloseWrite()
	_, _ = io.ReadAll(rec)
	_, _ = io.WriteString(rec, "pong")
	for _, ev := range rec.Events() {
		fmt.Printf("out=%-5v %q %v, recently: %v\n", ev.Out, ev.Data, ev.Err, time.Since(ev.Time) < time.Hour)
	}
	fmt.Printf("%q %q\n", rec.In(), rec.Out())
	// Output:
	// out=false "ping" <nil>, recently: true
	// out=false "" EOF, recently: true
	// out=true  "pong" <nil>, recently: true
	// "ping" "pong"
}

// A peer that writes where it may not, and gets a Terminate.
func ExampleInitiate() {
	a, b := rdmaptest.Pipe()
	y := rdmap.Server(b, nil)
	go func() {
		_ = y.Handshake(context.Background())
		_ = y.Serve()
	}()
	p, neg, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("CRC:", neg.CRC)
	_ = p.SendSegment(p.Untagged(uint8(verbs.OpSend), ddp.QNSend), []byte("hello")) // is fine
	_ = p.SendSegment(p.Tagged(uint8(verbs.OpWrite), 0xbad, 0), []byte("octets"))   // is not
	for {
		s, payload, err := p.NextSegment()
		if err != nil {
			fmt.Println(err)
			break
		}
		if s.QN == ddp.QNTerminate {
			term, err := verbs.ParseTerminate(payload)
			fmt.Println(term.Code, err)
			_ = a.CloseWrite()
		}
	}
	<-y.Done()
	// Output:
	// CRC: true
	// 0x1/0x1/0x00 tagged, invalid STag <nil>
	// EOF
}

// A responder that sends a Send without its middle part, and an FPDU with a wrong CRC.
func ExampleRespond() {
	for _, spoil := range []func(p *rdmaptest.Peer){
		func(p *rdmaptest.Peer) {
			s := p.Untagged(uint8(verbs.OpSend), ddp.QNSend)
			s.Last = false
			_ = p.SendSegment(s, make([]byte, 8))
			s.Last, s.MO = true, 16
			_ = p.SendSegment(s, make([]byte, 8))
		},
		func(p *rdmaptest.Peer) {
			s := p.Untagged(uint8(verbs.OpSend), ddp.QNSend)
			fpdu := p.Frame(s.Append(nil))
			fpdu[len(fpdu)-1] ^= 1
			_, _ = p.Conn.Write(fpdu)
		},
	} {
		a, b := rdmaptest.Pipe()
		x := rdmap.Client(a, nil)
		ctx := context.Background()
		go func() { _ = x.Handshake(ctx) }()
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 1, ORD: 1}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		for !x.ConnectionState().HandshakeComplete {
			time.Sleep(time.Millisecond)
		}
		spoil(p)
		_, err = x.Recv(ctx)
		if pe, ok := errors.AsType[*verbs.ProtocolError](err); ok {
			fmt.Println(pe.Code)
		}
		x.Abort(nil)
	}
	// Output:
	// 0x1/0x2/0x04 untagged, invalid MO
	// 0x2/0x0/0x02 CRC mismatch
}

// A peer that answers Reads by hand.
func ExamplePeer_Next() {
	a, b := rdmaptest.Pipe()
	x := rdmap.Client(a, nil)
	ctx := context.Background()
	go func() {
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 4, ORD: 4}, nil)
		if err != nil {
			return
		}
		u, err := p.Next()
		if err != nil {
			return
		}
		var s ddp.Segment
		s.Parse(u)
		request := u[s.HeaderLen():] // RFC 5040 Section 4.4: the sink's STag and TO come first
		sink := ddp.STag(uint32(request[0])<<24 | uint32(request[1])<<16 | uint32(request[2])<<8 | uint32(request[3]))
		s = p.Tagged(uint8(verbs.OpReadResponse), sink, 0)
		_ = p.Send(append(s.Append(nil), "by hand"...))
	}()
	if err := x.Handshake(ctx); err != nil {
		fmt.Println(err)
		return
	}
	data := make([]byte, 7)
	fmt.Println(x.Read(ctx, data, region.STag(1), 0), string(data))
	x.Abort(nil)
	// Output: <nil> by hand
}

// The TestMain of a package whose tests start goroutines.
func ExampleMain() {
	testMain := func(m *testing.M) { rdmaptest.Main(m) }
	_ = testMain
	// Output:
}

func ExampleLeaks() {
	if err := rdmaptest.Leaks(); err != nil {
		fmt.Println(err)
	}
	// Output:
}

// Golden octets with comments.
func ExampleHex() {
	t := new(testing.T) // in a test, its own
	fmt.Printf("%x\n", rdmaptest.Hex(t, `
		00000003 616263 00   name
		00000007             count`))
	// Output: 000000036162630000000007
}

// A receiver that takes what Complete says is not complete has been lied to.
func ExampleLie() {
	rnd := rand.New(rand.NewPCG(1, 3))
	honest := rdmaptest.Pieces(rnd, 3000, 1400)
	fmt.Println(rdmaptest.Complete(honest, 3000))
	fmt.Println(rdmaptest.Complete(rdmaptest.Lie(rnd, honest), 3000))
	// Output:
	// true
	// false
}

// A peer that sends a message in pieces, true or not.
func ExamplePeer_Cut() {
	p := rdmaptest.NewPeer(nil, &mpa.Negotiation{})
	cuts := []rdmaptest.Piece{{Off: 0, Len: 3}, {Off: 0, Len: 3, Last: true}}
	fpdus := p.Cut(p.Untagged(3, 0), []byte("octets"), cuts)
	fmt.Println(strings.Count(string(fpdus), "oct"), rdmaptest.Delivered(cuts))
	request := make([]byte, 28)
	request[15] = 6 // octets
	fpdus = p.Answer(request, []byte("octets"), func(n int) []rdmaptest.Piece { return []rdmaptest.Piece{{Len: n, Last: true}} })
	fmt.Println(strings.Contains(string(fpdus), "octets"))
	// Output:
	// 2 -1
	// true
}

// What a liar sends ends the connection, or is true.
func ExampleLiar() {
	for seed := range uint64(20) {
		a, b := rdmaptest.Pipe()
		y := rdmap.Server(b, nil)
		go y.Handshake(context.Background())
		p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		l := rdmaptest.NewLiar(p, rand.New(rand.NewPCG(seed, 0)))
		l.Say([]byte("the truth"))
		m, err := y.Recv(context.Background())
		if l.Caught != (err != nil) || err == nil && !strings.HasPrefix("the truth", string(m.Data)) {
			fmt.Println(seed, err)
		}
		y.Abort(nil)
		if _, ok := l.Listen(nil); ok {
			fmt.Println("nobody answers")
		}
		l.End()
		<-y.Done()
	}
	// Output:
}
