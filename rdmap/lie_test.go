package rdmap_test

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

var lies = flag.Int("lies", 150, "seeds of TestReadOfLiar and TestSendOfLiar")

// poison is what memory holds that nobody but its owner may see.
const poison = 0xa5

// TestReadOfLiar: a Read completes only if its Response has brought each octet once, in order; whatever
// else a peer sends ends the connection with the Terminate "base or bounds violation" or "shorter than
// requested". Over pipes and over TCP, where long payloads are read straight into their place.
//
// spec: rdmap 7.5 Read
func TestReadOfLiar(t *testing.T) {
	complete := 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 18))
		n, most := 1+rnd.IntN(200_000), 64<<10-100
		if rnd.IntN(2) == 0 {
			n, most = 1+rnd.IntN(4000), 1+rnd.IntN(1500)
		}
		cuts := rdmaptest.Pieces(rnd, n, most)
		if rnd.IntN(3) > 0 {
			cuts = rdmaptest.Lie(rnd, cuts)
		}
		want := rdmaptest.Complete(cuts, n)
		a, b := wire(t, seed%2 == 0)
		x, p := RawResponder(t, a, b, nil)
		sink := bytes.Repeat([]byte{poison}, n)
		done := make(chan error, 1)
		go func() { done <- x.Read(t.Context(), sink, 1, 0) }()
		req := must(p.Next())(t)
		go p.Conn.Write(p.Answer(req[ddp.UntaggedLen:], pattern(0, 2*n), func(int) []rdmaptest.Piece { return cuts }))
		var perr *verbs.ProtocolError
		switch err := <-done; {
		case want && (err != nil || !bytes.Equal(sink, pattern(0, n))):
			t.Fatalf("seed %d: %v for a complete Response of %d octets: %v", seed, err, n, cuts)
		case want:
			complete++
		case err == nil:
			t.Fatalf("seed %d: Read of %d octets completed, %d of them never written: %v", seed, n, bytes.Count(sink, []byte{poison}), cuts)
		case !errors.As(err, &perr) || perr.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 1}) && perr.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 0xff}) && perr.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 0}):
			t.Fatalf("seed %d: %v", seed, err)
		}
		x.Abort(nil)
		p.Conn.Close()
		<-x.Done()
	}
	if complete == 0 || complete == *lies {
		t.Fatalf("%d of %d Reads completed: the test shows nothing", complete, *lies)
	}
}

// TestSendOfLiar: a Send is delivered only if each octet of it has come once, in order.
func TestSendOfLiar(t *testing.T) {
	delivered := 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 19))
		n := 1 + rnd.IntN(4000)
		cuts := rdmaptest.Pieces(rnd, n, 1+rnd.IntN(1500))
		if rnd.IntN(3) > 0 {
			cuts = rdmaptest.Lie(rnd, cuts)
		}
		length := rdmaptest.Delivered(cuts)
		want := length >= 0
		a, b := wire(t, seed%2 == 0)
		p, y := rawInitiator(t, a, b, &rdmap.Config{Receives: rdmap.Receives{Size: 8000}})
		go a.Write(p.Cut(p.Untagged(3, 0), pattern(0, 2*n), cuts))
		m, err := y.Recv(t.Context())
		if want != (err == nil) || want && !bytes.Equal(m.Data, pattern(0, length)) {
			t.Fatalf("seed %d: %v, want delivery %v: %d octets, %v", seed, err, want, length, cuts)
		}
		if want {
			delivered++
			y.PostRecv(1)
		}
		y.Abort(nil)
		a.Close()
		<-y.Done()
	}
	if delivered == 0 || delivered == *lies {
		t.Fatalf("%d of %d Sends delivered: the test shows nothing", delivered, *lies)
	}
}

// TestVerifyOfLiar: Verify with a hash succeeds only if the peer answers with that hash.
//
// spec: rdmap 7.5 Verify
func TestVerifyOfLiar(t *testing.T) {
	want := []byte{1, 2, 3, 4}
	for _, answer := range [][]byte{want, {1, 2, 3, 5}, {1, 2, 3}, {1, 2, 3, 4, 5}, make([]byte, 64)} {
		a, b := wire(t, false)
		x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}})
		done := make(chan error, 1)
		go func() {
			if err := x.Handshake(t.Context()); err != nil {
				done <- err
				return
			}
			_, err := x.Verify(t.Context(), 1, 0, 64, want)
			done <- err
		}()
		// A stag's capability block, with the commit extension.
		block := []byte{'s', 't', 'a', 'g', 1, 12, 0xfd, 0, 0, 0, 0, 1 | byte(verbs.ExtCommit)<<1}
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, block)
		noErr(t, err)
		if _, err := p.Next(); err != nil {
			t.Fatal(err)
		}
		s := ddp.Segment{Last: true, Control: 0x40 | uint8(verbs.OpVerifyResponse), QN: 3, MSN: 1}
		go p.Send(append(s.Append(nil), answer...)) //nolint:errcheck // the other side tells
		if err := <-done; (err == nil) != bytes.Equal(answer, want) {
			t.Errorf("answer %x to a comparison with %x: %v", answer, want, err)
		}
		x.Abort(nil)
		b.Close()
		<-x.Done()
	}
}

// wire returns the two ends of a stream.
func wire(t *testing.T, tcp bool) (a, b net.Conn) {
	t.Helper()
	if tcp {
		return TcpPair(t)
	}
	return rdmaptest.Pipe()
}

// pattern returns octets that say where they belong, and are never poison.
func pattern(off, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte((off + i) * 7 % 251); b[i] == poison {
			b[i] = 0xfe
		}
	}
	return b
}
