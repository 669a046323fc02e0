package xdr

import "encoding/binary"

// AppendUint32 appends v as an unsigned integer: 4 octets (RFC 4506
// Section 4.2).
func AppendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendUint64 appends v as an unsigned hyper integer: 8 octets (RFC 4506
// Section 4.5).
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendWords appends two words, at the price of one.
func appendWords(b []byte, v, w uint32) []byte { return AppendUint64(b, uint64(v)<<32|uint64(w)) }

// AppendBool appends v as a boolean: 4 octets, 0 or 1 (RFC 4506 Section 4.4).
func AppendBool(b []byte, v bool) []byte {
	var w byte
	if v {
		w = 1
	}
	return append(b, 0, 0, 0, w)
}

// AppendFixedOpaque appends opaque[len(v)]: the octets of v and their pad (RFC
// 4506 Section 4.9). It borrows v and copies it.
func AppendFixedOpaque(b, v []byte) []byte { return AppendPad(append(b, v...), len(v)) }

// AppendOpaque appends opaque<>: a count word, the octets of v and their pad
// (RFC 4506 Section 4.10). It borrows v and copies it; v is shorter than 2^32.
func AppendOpaque(b, v []byte) []byte {
	return AppendFixedOpaque(AppendUint32(b, uint32(len(v))), v)
}

// AppendString appends string<> (RFC 4506 Section 4.11): the form of
// AppendOpaque.
func AppendString(b []byte, v string) []byte {
	return AppendPad(append(AppendUint32(b, uint32(len(v))), v...), len(v))
}

// AppendPad appends the 0 to 3 zero octets that follow n octets of data.
func AppendPad(b []byte, n int) []byte { return append(b, zeros[:Pad(n)]...) }

var zeros [3]byte
