package rdmaptest

import "math/rand/v2"

// Opcodes of RFC 5040 Section 4.3.
const (
	opReadRequest = 1
	opSend        = 3
	opTerminate   = 7
)

// Liar is a Peer whose messages come in pieces, half of them lies; see Lie. Its methods are for one
// goroutine; what they send is written by another one, in order.
type Liar struct {
	*Peer
	// Caught: it has sent something that must be refused, and that ends the connection.
	Caught bool
	// Short: a Send of it lacked its end, which only the layer above can notice.
	Short bool

	rnd *rand.Rand
	out chan []byte
}

// maxUnwritten is how many messages a Liar may be ahead of its stream.
const maxUnwritten = 64

// NewLiar returns a Liar whose decisions come from rnd. End must be called.
func NewLiar(p *Peer, rnd *rand.Rand) *Liar {
	l := &Liar{Peer: p, rnd: rnd, out: make(chan []byte, maxUnwritten)}
	go func() {
		for b := range l.out {
			_, _ = p.Conn.Write(b) // if the other side is gone, reading tells
		}
		_ = p.Conn.Close()
	}()
	return l
}

// End closes the stream when everything is written, and ends the goroutine.
func (l *Liar) End() { close(l.out) }

// Say makes a Send of msg.
func (l *Liar) Say(msg []byte) {
	cuts := l.cut(len(msg))
	n := Delivered(cuts)
	l.Caught = l.Caught || n < 0
	l.Short = l.Short || n >= 0 && n != len(msg)
	l.out <- l.Cut(l.Untagged(opSend, 0), msg, cuts)
}

// Post writes FPDUs as they are, after what came before.
func (l *Liar) Post(fpdus []byte) { l.out <- fpdus }

// Tell answers a Read Request, whose payload is req, with octets of mem; see Peer.Answer.
func (l *Liar) Tell(req, mem []byte) {
	l.out <- l.Answer(req, mem, func(n int) []Piece {
		cuts := l.cut(n)
		l.Caught = l.Caught || !Complete(cuts, n)
		return cuts
	})
}

// Listen answers Reads of mem until there is a whole Send, which it returns. It returns false when the
// connection has ended. An STag does not count: all name mem, from tagged offset 0.
func (l *Liar) Listen(mem []byte) (msg []byte, ok bool) {
	for {
		s, payload, err := l.NextSegment()
		switch op := s.Control & 0xf; {
		case err != nil, !s.Tagged && op == opTerminate:
			return nil, false
		case s.Tagged:
		case s.QN == 1 && op == opReadRequest:
			l.Tell(payload, mem)
		case s.QN == 0:
			if msg = append(msg, payload...); s.Last {
				return msg, true
			}
		}
	}
}

// mostPiece is the largest piece of a Liar, octets.
const mostPiece = 20_000

func (l *Liar) cut(n int) []Piece {
	cuts := Pieces(l.rnd, n, 1+l.rnd.IntN(mostPiece))
	if l.rnd.IntN(2) == 0 {
		cuts = Lie(l.rnd, cuts)
	}
	return cuts
}
