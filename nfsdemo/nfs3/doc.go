// Package nfs3 holds the NFS version 3 protocol (RFC 1813): constants, types, and the
// codec of the arguments and results of all 22 procedures, in both directions. The
// server, the client and the capture decoder of this project share it.
//
// Every message is a struct with
//
//	Append(b []byte) []byte           // appends the XDR encoding, never fails
//	Parse(d *xdr.Decoder) error       // reads it, *xdr.DecodeError on bad octets
//
// Results begin with Status and carry the arm of the union that goes with it: the "resok"
// fields when Status is [OK], the "resfail" fields otherwise. Parse leaves fields of the
// other arm as they were, so use a fresh value, or Reset by assigning the zero value.
//
// # Memory
//
// Parse never allocates from a length on the wire. File handles and the data of READ and
// WRITE are views of the decoder's input (it lends them); file names and paths are copied.
// Append copies everything it is given.
//
// # Reducible items
//
// READ data, READLINK path, WRITE data and SYMLINK path are the items RFC 8267 Section 4
// lets a transport move apart from the rest. Each is the last field of its message, so
// those four types also have AppendHead, which stops after the item's count word, and the
// two results have ParseHead, which does the same on the way in: the transport supplies
// the octets.
//
// # Strictness
//
// Booleans and the enums that select a union arm must hold a defined value, else the error
// is xdr.ErrRange (RFC 4506 Sections 4.3 and 4.4). A status a server invents is kept as
// it is. Names longer than any file system allows are decoded: the answer to them is
// NFS3ERR_NAMETOOLONG, not GARBAGE_ARGS. Octets after a message are left in the decoder.
//
// # Not here
//
// NLM, NSM and NFSACL are not spoken by this project. MOUNT is package mount3.
package nfs3
