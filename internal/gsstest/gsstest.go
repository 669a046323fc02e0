// Package gsstest is for tests: a mechanism of RPCSEC_GSS whose secrets are none.
package gsstest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/stag-rdma/stag/transport/gss"
)

// Errors of the mechanism.
var (
	ErrToken = errors.New("gsstest: not my token")
	ErrMIC   = errors.New("gsstest: wrong checksum")
)

// Initiate begins a context of a principal. Each side sends legs tokens; the context ends after life.
func Initiate(name string, legs int, life time.Duration) gss.Handshake {
	return &shake{name: name, left: legs, life: life, initiator: true}
}

// Accept begins the acceptor's end. It refuses the principal "nobody", and tells him why.
func Accept() gss.Handshake { return new(shake) }

type shake struct {
	name      string
	left      int // tokens that this side sends
	life      time.Duration
	initiator bool
}

// A token is the number of tokens that follow from the same side, the life in ms, and the name.
func (s *shake) Step(token []byte) ([]byte, gss.Context, error) {
	if bytes.HasPrefix(token, []byte("no: ")) {
		return nil, nil, errors.New(string(token))
	}
	if !s.initiator {
		if len(token) < 5 {
			return nil, nil, ErrToken
		}
		s.left, s.life, s.name = int(token[0])+1, time.Duration(binary.BigEndian.Uint32(token[1:]))*time.Millisecond, string(token[5:])
		if s.name == "nobody" {
			return []byte("no: " + s.name), nil, ErrToken
		}
	}
	if s.initiator && s.left == 0 { // the last answer
		return nil, s.established(), nil
	}
	s.left--
	out := append(binary.BigEndian.AppendUint32([]byte{byte(s.left)}, uint32(s.life/time.Millisecond)), s.name...)
	if !s.initiator && s.left == 0 {
		return out, s.established(), nil
	}
	return out, nil, nil
}

func (s *shake) established() *Context {
	return &Context{Name: s.name, Acceptor: !s.initiator, End: time.Now().Add(s.life)}
}

// Context is an established context, also one that a test makes up.
type Context struct {
	Name     string
	Acceptor bool
	End      time.Time
}

// Initiator implements gss.Context.
func (c *Context) Initiator() gss.Principal { return gss.Principal{Mechanism: "test", Name: c.Name} }

// Expires implements gss.Context.
func (c *Context) Expires() time.Time { return c.End }

const micSize = 18 // not a multiple of 4

// MICSize implements gss.Context.
func (c *Context) MICSize() int { return micSize }

func (c *Context) sum(acceptor bool, what string, msg []byte) []byte {
	h := hmac.New(sha256.New, []byte(c.Name+what+map[bool]string{true: "a", false: "i"}[acceptor]))
	h.Write(msg)
	return h.Sum(nil)[:micSize]
}

// AppendMIC implements gss.Context.
func (c *Context) AppendMIC(b, msg []byte) []byte { return append(b, c.sum(c.Acceptor, "mic", msg)...) }

// VerifyMIC implements gss.Context.
func (c *Context) VerifyMIC(msg, mic []byte) error {
	if !hmac.Equal(mic, c.sum(!c.Acceptor, "mic", msg)) {
		return ErrMIC
	}
	return nil
}

// AppendWrap implements gss.Context: the octets inverted, and a checksum.
func (c *Context) AppendWrap(b []byte, parts ...[]byte) []byte {
	at := len(b)
	for _, p := range parts {
		for _, o := range p {
			b = append(b, ^o)
		}
	}
	return append(b, c.sum(c.Acceptor, "wrap", b[at:])...)
}

// Unwrap implements gss.Context.
func (c *Context) Unwrap(token []byte) ([]byte, error) {
	n := len(token) - micSize
	if n < 0 || !hmac.Equal(token[n:], c.sum(!c.Acceptor, "wrap", token[:n])) {
		return nil, ErrMIC
	}
	for i := range token[:n] {
		token[i] = ^token[i]
	}
	return token[:n], nil
}
