package krb5

import (
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/transport/gss"
)

// Flags of a token (RFC 4121 Section 4.2.2).
const (
	flagAcceptor byte = 1 << iota // it is sent by the acceptor
	flagSealed
	flagSubkey // it is protected by a key that the acceptor has asserted
)

// header is the size of what a token begins with (RFC 4121 Section 4.2.6).
const header = 16

var errToken = errors.New("krb5: a token that this context did not make")

// secured is an established context.
type secured struct {
	who      string
	end      time.Time
	ours     *keys // of what this side sends
	theirs   *keys
	acceptor bool
	subkey   byte // flagSubkey, or 0
	seq      atomic.Uint64
}

var _ gss.Context = (*secured)(nil)

// secure makes a context with a key. seq is the number of the first token that this side sends.
func secure(who string, end time.Time, k types.EncryptionKey, acceptor bool, subkey byte, seq uint64) (*secured, error) {
	c := &secured{who: who, end: end, acceptor: acceptor, subkey: subkey}
	c.seq.Store(seq)
	initiator, err := derive(k, keyusage.GSSAPI_INITIATOR_SIGN, keyusage.GSSAPI_INITIATOR_SEAL)
	if err != nil {
		return nil, err
	}
	a, err := derive(k, keyusage.GSSAPI_ACCEPTOR_SIGN, keyusage.GSSAPI_ACCEPTOR_SEAL)
	if c.ours, c.theirs = initiator, a; acceptor {
		c.ours, c.theirs = a, initiator
	}
	return c, err
}

// Initiator implements gss.Context.
func (c *secured) Initiator() gss.Principal { return gss.Principal{Mechanism: Mechanism, Name: c.who} }

// Mechanism is the name of this mechanism in gss.Principal.
const Mechanism = "krb5"

// Expires implements gss.Context: with the ticket.
func (c *secured) Expires() time.Time { return c.end }

// flags returns those of the tokens of one side.
func (c *secured) flags(acceptor bool, sealed byte) byte {
	f := c.subkey | sealed
	if acceptor {
		f |= flagAcceptor
	}
	return f
}

// MICSize implements gss.Context.
func (c *secured) MICSize() int { return header + c.ours.sign.size }

// AppendMIC implements gss.Context (RFC 4121 Section 4.2.6.1).
func (c *secured) AppendMIC(b, msg []byte) []byte {
	h := [header]byte{4, 4, c.flags(c.acceptor, 0), 0xff, 0xff, 0xff, 0xff, 0xff}
	binary.BigEndian.PutUint64(h[8:], c.seq.Add(1)-1)
	return append(append(b, h[:]...), c.ours.sign.sum(msg, h[:])...)
}

// VerifyMIC implements gss.Context.
func (c *secured) VerifyMIC(msg, mic []byte) error {
	if len(mic) != header+c.theirs.sign.size || [8]byte(mic) != [8]byte{4, 4, c.flags(!c.acceptor, 0), 0xff, 0xff, 0xff, 0xff, 0xff} ||
		!hmac.Equal(mic[header:], c.theirs.sign.sum(msg, mic[:header])) {
		return errToken
	}
	return nil
}

// AppendWrap implements gss.Context (RFC 4121 Section 4.2.6.2): sealed, not rotated, without filler.
func (c *secured) AppendWrap(b []byte, parts ...[]byte) []byte {
	h := [header]byte{5, 4, c.flags(c.acceptor, flagSealed), 0xff}
	binary.BigEndian.PutUint64(h[8:], c.seq.Add(1)-1)
	return c.ours.appendSealed(append(b, h[:]...), append(slices.Clip(parts), h[:])...)
}

// Unwrap implements gss.Context.
func (c *secured) Unwrap(token []byte) ([]byte, error) {
	if len(token) < header || [4]byte(token) != [4]byte{5, 4, c.flags(!c.acceptor, flagSealed), 0xff} {
		return nil, errToken
	}
	h, body := [header]byte(token), token[header:]
	filler, rotated := int(binary.BigEndian.Uint16(h[4:])), int(binary.BigEndian.Uint16(h[6:]))
	if len(body) == 0 {
		return nil, errToken
	}
	rotate(body, rotated%len(body))
	plain, ok := c.theirs.open(body)
	if !ok || len(plain) < filler+header {
		return nil, errToken
	}
	h[6], h[7] = 0, 0 // as it was sealed, before it was rotated
	n := len(plain) - header
	if [header]byte(plain[n:]) != h {
		return nil, errToken
	}
	return plain[:n-filler], nil
}

// rotate moves the first n octets of b to its end.
func rotate(b []byte, n int) {
	if n > 0 {
		slices.Reverse(b[:n])
		slices.Reverse(b[n:])
		slices.Reverse(b)
	}
}
