// Package pushfile is the wire format of push-mode writes (docs/pushfile.x, docs/pushfile.md): the
// messages of the program by which a client gets leases on files, and the records that it appends to
// its log under these leases.
//
// Append encodes a message, and Parse decodes it. Parse does not return errors: the decoder keeps them,
// and the caller asks its End. Parsed fields alias the decoder's input.
package pushfile
