package xdr

import "encoding/binary"

// MaxAuthBody is the largest body of a credential or verifier, in octets (RFC
// 5531 Section 8.2).
const MaxAuthBody = 400

// AuthFlavor is auth_flavor, the kind of a credential or verifier (RFC 5531
// Section 8.2).
type AuthFlavor uint32

// Values of [AuthFlavor].
const (
	AuthNone  AuthFlavor = 0 // AUTH_NONE: the body is empty
	AuthSys   AuthFlavor = 1 // AUTH_SYS: the body is a SysCred
	AuthShort AuthFlavor = 2 // AUTH_SHORT: a handle from the server
	AuthDH    AuthFlavor = 3 // AUTH_DH
	RPCSECGSS AuthFlavor = 6 // RPCSEC_GSS (RFC 2203)
	AuthTLS   AuthFlavor = 7 // AUTH_TLS: the body is empty; asks for TLS (RFC 9289 Section 4.1)
)

var flavorNames = [...]string{"AUTH_NONE", "AUTH_SYS", "AUTH_SHORT", "AUTH_DH", 6: "RPCSEC_GSS", "AUTH_TLS"}

// String returns the RFC's spelling, or AuthFlavor(0x2a) for an unknown value.
func (f AuthFlavor) String() string { return enumName(flavorNames[:], "AuthFlavor", uint32(f)) }

// Auth is opaque_auth: a credential or a verifier (RFC 5531 Section 8.2). On
// the wire: flavor, 4 octets; body, opaque<400>. The zero value is AUTH_NONE,
// 8 zero octets. A decoded Body is a view of the input.
type Auth struct {
	Flavor AuthFlavor
	Body   []byte // 0 to MaxAuthBody octets
}

// Size returns the octets that Append adds.
func (a *Auth) Size() int { return 8 + len(a.Body) + Pad(len(a.Body)) }

// Append appends a to b. It borrows the body and copies it; it does not check
// its length.
func (a *Auth) Append(b []byte) []byte {
	if len(a.Body) == 0 { // as most are
		return AppendUint64(b, uint64(a.Flavor)<<32)
	}
	return AppendOpaque(AppendUint32(b, uint32(a.Flavor)), a.Body)
}

// Parse reads a from d. A body above MaxAuthBody is ErrRange. Body is a view
// of the input, nil when it is empty.
func (a *Auth) Parse(d *Decoder) {
	if len(d.b) >= 8 && binary.BigEndian.Uint32(d.b[4:]) == 0 { // most are empty
		a.Flavor, a.Body = AuthFlavor(binary.BigEndian.Uint32(d.b)), nil
		d.b = d.b[8:]
		return
	}
	a.Flavor = AuthFlavor(d.Uint32())
	a.Body = d.Opaque(MaxAuthBody)
	if len(a.Body) == 0 {
		a.Body = nil
	}
}
