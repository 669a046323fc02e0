// Package pushfile has the octets of push-mode writes (docs/pushfile.x, docs/pushfile.md): the
// messages of the program by which a client gets leases on files, and the records that it
// appends to its log under them.
//
// Messages are appended with Append and read with Parse. Parse does not report errors: they
// stick to the decoder, whose End the caller asks. What it yields aliases the octets it
// was read from.
package pushfile
