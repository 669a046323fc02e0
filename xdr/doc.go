// Package xdr reads and writes XDR data (RFC 4506) and ONC RPC messages
// (RFC 5531), as octets in memory.
//
// Three parts, each usable alone:
//
//   - [Decoder], a bounded cursor over a []byte, and the Append functions, its
//     inverse (RFC 4506 Section 4);
//   - [CallHeader], [ReplyHeader], [Auth] and [SysCred], the ONC RPC message
//     headers (RFC 5531 Section 9, RFC 5531 Appendix A);
//   - [RecordReader] and [AppendRecordMark], the record marks of RPC over TCP
//     (RFC 5531 Section 11). RPC-over-RDMA never uses them.
//
// Contract: octets go in, values come out. Nothing here does I/O of its own
// (RecordReader reads the io.Reader it was given), keeps a clock, locks, starts
// a goroutine or uses reflection. Opaque data is never copied: it comes back
// as a view of the input, with its capacity cut to its length, and lives as
// long as the input does. Only strings are copied.
//
// The error is sticky. After the first failure every read returns a zero
// value, so one test at the end of a structure is enough:
//
//	d := xdr.NewDecoder(b)
//	uid, gid := d.Uint32(), d.Uint32()
//	name := d.Opaque(255)
//	if err := d.ErrIn("mknod args"); err != nil {
//		return err // a *DecodeError that wraps ErrShort or ErrRange
//	}
//
// Limits. A length on the wire is compared with its bound and with the octets
// that are there before it is used; no decoder of this package allocates by a
// length alone. Element counts go through [Decoder.Count], which needs the
// least size of one element and so bounds every loop and allocation by the
// size of the input.
//
// Choice: pad octets are written as zero and not looked at on receipt, since
// RFC 4506 Section 3 demands zeros of the sender and peers are known that do
// not send them. A missing pad is an error, also at the end of the input.
// Choice: octets behind the arguments or results of a procedure are ignored;
// who wants an error calls [Decoder.End].
//
// Not here: quadruple-precision floats, RPCSEC_GSS bodies (RFC 2203), and
// encoding by reflection, which is package xdr/xdrreflect.
//
// A Decoder, a header and a RecordReader belong to one goroutine at a time.
package xdr
