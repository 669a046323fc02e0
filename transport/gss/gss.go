package gss

import (
	"errors"
	"fmt"
	"time"

	"github.com/stag-rdma/stag/xdr"
)

// Service is what RPCSEC_GSS protects of a call, besides its header (RFC 2203 Section 5.3.1).
type Service uint32

// Values of [Service].
const (
	None      Service = 1 // nothing: only who calls is certain
	Integrity Service = 2 // arguments and results have a checksum
	Privacy   Service = 3 // they are encrypted
)

// String returns "none", "integrity" or "privacy".
func (s Service) String() string {
	if s < None || s > Privacy {
		return fmt.Sprintf("Service(%d)", uint32(s))
	}
	return [...]string{"none", "integrity", "privacy"}[s-1]
}

// Principal is who has proved to be the initiator of a context.
type Principal struct {
	Mechanism string // "krb5"
	Name      string // as the mechanism writes it: "alice@EXAMPLE.ORG"
}

// Handshake makes one context. It belongs to one goroutine at a time.
type Handshake interface {
	// Step borrows a token of the peer, which is nil in the first step of an initiator, and returns the one to send,
	// nil for none. c is not nil once the context is established. After an error there may be a token all the same,
	// which tells the peer why.
	Step(token []byte) (reply []byte, c Context, err error)
}

// Context is an established context. It is safe for concurrent use. The order of its messages does not matter.
type Context interface {
	// Initiator is who has initiated it.
	Initiator() Principal
	// Expires is when it ends.
	Expires() time.Time
	// MICSize is how many octets AppendMIC appends, at most 256.
	MICSize() int
	// AppendMIC appends the checksum of msg.
	AppendMIC(b, msg []byte) []byte
	// VerifyMIC returns an error unless mic is what the peer's AppendMIC makes of msg.
	VerifyMIC(msg, mic []byte) error
	// AppendWrap appends the message that the parts make, encrypted with a checksum: at most [MaxOverhead]/2 octets more.
	AppendWrap(b []byte, parts ...[]byte) []byte
	// Unwrap takes token, the result of the peer's AppendWrap, and returns the message, which may lie in token.
	Unwrap(token []byte) ([]byte, error)
}

// MaxOverhead is the most octets by which a service makes arguments or results longer.
const MaxOverhead = 512

// MaxToken is the most octets of a token of a [Handshake]. Tickets with the groups of a large directory have tens of
// thousands.
const MaxToken = 64 << 10

// maxSeq is above every sequence number of a call (RFC 2203 Section 5.3.3.1).
const maxSeq = 1 << 31

// Values of gss_proc (RFC 2203 Section 5.3.1).
const (
	procData uint32 = iota
	procInit
	procContinue
	procDestroy
)

// Values of gss_major in the answer to a control message (RFC 2744 Section 3.9.1).
const (
	majorComplete uint32 = 0
	majorContinue uint32 = 1
	majorFailure  uint32 = 13 << 16
)

// version is that of the protocol.
const version = 1

// cred is rpc_gss_cred_t.
type cred struct {
	proc, seq uint32
	service   Service
	handle    []byte
}

// maxHandle is what a credential has room for.
const maxHandle = xdr.MaxAuthBody - 20

// parse reads a credential. It returns false if that is malformed, or of another version.
func (c *cred) parse(body []byte) bool {
	d := xdr.NewDecoder(body)
	v := d.Uint32()
	c.proc, c.seq, c.service = d.Uint32(), d.Uint32(), Service(d.Uint32())
	c.handle = d.Opaque(maxHandle)
	return d.End() == nil && v == version && c.proc <= procDestroy && c.service >= None && c.service <= Privacy
}

// auth writes it.
func (c *cred) auth() xdr.Auth {
	b := make([]byte, 0, 20+len(c.handle)+3)
	for _, w := range [...]uint32{version, c.proc, c.seq, uint32(c.service)} {
		b = xdr.AppendUint32(b, w)
	}
	return xdr.Auth{Flavor: xdr.RPCSECGSS, Body: xdr.AppendOpaque(b, c.handle)}
}

// initRes is rpc_gss_init_res (RFC 2203 Section 5.2.3.1).
type initRes struct {
	handle       []byte
	major, minor uint32
	window       uint32
	token        []byte
}

func (r *initRes) append(b []byte) []byte {
	b = xdr.AppendOpaque(b, r.handle)
	for _, w := range [...]uint32{r.major, r.minor, r.window} {
		b = xdr.AppendUint32(b, w)
	}
	return xdr.AppendOpaque(b, r.token)
}

func (r *initRes) parse(b []byte) error {
	d := xdr.NewDecoder(b)
	r.handle = d.Opaque(maxHandle)
	r.major, r.minor, r.window = d.Uint32(), d.Uint32(), d.Uint32()
	r.token = d.Opaque(MaxToken)
	return d.End()
}

var errBody = errors.New("gss: the arguments or results are not those of the call")

// appendBody appends arguments or results, which the parts make, as the service protects them in call seq (RFC 2203 Section
// 5.3.2).
func appendBody(b []byte, c Context, s Service, seq uint32, parts ...[]byte) []byte {
	at := len(b)
	if s == Privacy {
		b = c.AppendWrap(xdr.AppendUint32(b, 0), append([][]byte{xdr.AppendUint32(nil, seq)}, parts...)...)
		n := len(b) - at - 4
		xdr.AppendUint32(b[:at], uint32(n)) // the count, which is known now
		return xdr.AppendPad(b, n)
	}
	if s == Integrity {
		b = xdr.AppendUint32(xdr.AppendUint32(b, 0), seq)
	}
	for _, p := range parts {
		b = append(b, p...)
	}
	if s == None {
		return b
	}
	xdr.AppendUint32(b[:at], uint32(len(b)-at-4)) // a multiple of 4
	return xdr.AppendOpaque(b, c.AppendMIC(make([]byte, 0, maxMIC), b[at+4:]))
}

// maxMIC is the most octets of a MIC.
const maxMIC = 256

// openBody takes body, which appendBody has made at the other end, and returns a view of the plain octets.
func openBody(c Context, s Service, seq uint32, body []byte) (plain []byte, err error) {
	if s == None {
		return body, nil
	}
	d := xdr.NewDecoder(body)
	whole := d.Opaque(len(body))
	if s == Integrity {
		mic := d.Opaque(maxMIC)
		if err := d.End(); err != nil {
			return nil, err
		}
		if err := c.VerifyMIC(whole, mic); err != nil {
			return nil, err
		}
	} else {
		if err := d.End(); err != nil {
			return nil, err
		}
		if whole, err = c.Unwrap(whole); err != nil {
			return nil, err
		}
	}
	d = xdr.NewDecoder(whole)
	if got := d.Uint32(); d.Err() != nil || got != seq || d.Len()%4 != 0 {
		return nil, errBody
	}
	return d.Rest(), nil
}

// headOf returns what the verifier of a call is the MIC of: its message up to the credential (RFC 2203 Section 5.3.1).
func headOf(b []byte, h *xdr.CallHeader) []byte {
	bare := *h
	bare.Verf = xdr.Auth{}
	b = xdr.AppendCall(b, &bare)
	return b[:len(b)-bare.Verf.Size()]
}

// micOf makes the verifier of a number: that of a reply, or the window of a context.
func micOf(c Context, n uint32) xdr.Auth {
	return xdr.Auth{Flavor: xdr.RPCSECGSS, Body: c.AppendMIC(make([]byte, 0, c.MICSize()), xdr.AppendUint32(nil, n))}
}

// verifyMIC checks such a verifier.
func verifyMIC(c Context, v *xdr.Auth, n uint32) error {
	if v.Flavor != xdr.RPCSECGSS {
		return errors.New("gss: the reply has no verifier of RPCSEC_GSS")
	}
	return c.VerifyMIC(xdr.AppendUint32(nil, n), v.Body)
}
