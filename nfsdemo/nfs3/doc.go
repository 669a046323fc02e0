// Package nfs3 holds the NFS version 3 protocol (RFC 1813): constants, types, and the
// codec of the arguments and results of all 22 procedures, in both directions. The
// server, the client and the capture decoder of this project share it.
//
// Every message is an [xdr.Message]: use xdr.Encode and xdr.Decode.
//
// Results begin with Status and carry the arm of the union that Status selects: the "resok"
// fields if it is [OK], the "resfail" fields otherwise. Decode does not touch fields of the other
// arm, so use a new value, or assign the zero value first.
//
// # Memory
//
// Decode never allocates from a length on the wire. File handles and the data of READ and
// WRITE are views of the decoder's input (it lends them); file names and paths are copied.
//
// # Reducible items
//
// READ data, READLINK path, WRITE data and SYMLINK path are the items that a transport may move
// apart from the rest (RFC 8267 Section 4). Each is the last field of its message, and Head is the message without it and
// its count word.
//
// # Strictness
//
// Booleans and the enums that select a union arm must hold a defined value; otherwise the error
// is xdr.ErrRange (RFC 4506 Sections 4.3 and 4.4). A status that a server invents is kept. Names
// longer than any file system allows are decoded, because the answer to them is
// NFS3ERR_NAMETOOLONG, not GARBAGE_ARGS. Octets after a message stay in the decoder.
//
// # Not here
//
// MOUNT is package mount3.
package nfs3
