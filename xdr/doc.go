// Package xdr reads and writes XDR data (RFC 4506) and ONC RPC messages (RFC 5531), as octets in
// memory.
//
// It has four parts, each usable alone:
//
//   - [Decoder], a bounded cursor over a []byte, and the Append functions, its
//     inverse (RFC 4506 Section 4);
//   - [Coder], both directions in one method of a message;
//   - [CallHeader], [ReplyHeader], [Auth] and [SysCred], the ONC RPC message
//     headers (RFC 5531 Section 9, RFC 5531 Appendix A);
//   - [RecordReader] and [AppendRecordMark], the record marks of RPC over TCP
//     (RFC 5531 Section 11). RPC-over-RDMA never uses them.
//
// Contract: octets go in, values come out. The package does no I/O of its own (RecordReader reads the
// io.Reader it was given), keeps no clock, takes no lock, starts no goroutine, and uses no reflection.
// It never copies opaque data: the result is a view of the input, with its capacity cut to its length,
// and lives as long as the input. Only strings are copied.
//
// Errors are sticky. After the first failure every read returns a zero value, so one test at the end of
// a structure is enough:
//
//	d := xdr.NewDecoder(b)
//	uid, gid := d.Uint32(), d.Uint32()
//	name := d.Opaque(255)
//	if err := d.ErrIn("mknod args"); err != nil {
//		return err // a *DecodeError that wraps ErrShort or ErrRange
//	}
//
// Limits. A length on the wire is compared with its bound, and with the number of octets that are
// there, before it is used. No decoder of this package allocates by a length alone. Element counts go
// through [Decoder.Count], which takes the least size of one element, so that the size of the input
// bounds every loop and allocation.
//
// Choice: pad octets are written as zero and ignored on receipt, because RFC 4506 Section 3 demands
// zeros from the sender, but some peers do not send them. A missing pad is an error, also at the end of
// the input. Choice: octets after the arguments or results of a procedure are ignored; call
// [Decoder.End] to get an error for them.
//
// Not here: quadruple-precision floats, RPCSEC_GSS bodies (RFC 2203), and encoding by reflection, which
// is package xdr/xdrreflect.
//
// A Decoder, a header and a RecordReader belong to one goroutine at a time.
package xdr
