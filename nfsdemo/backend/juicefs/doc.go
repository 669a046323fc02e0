// Package juicefs serves the files of a JuiceFS volume: their names are in a database and their octets in an
// object store, which any number of servers share. What one server has acknowledged, all of them have.
//
//	v, err := juicefs.Open(ctx, "postgres://stag@db/volume", nil)
//	fsys, err := v.FS("/")
//
// It is a module of its own, because JuiceFS needs CGO and hundreds of other modules. The build tags in the
// Makefile of the repository leave out the engines and stores that Open refuses.
//
// # Handles
//
// A handle is the volume's UUID and the inode number, which JuiceFS never uses twice, sealed with a key that is an
// extended attribute of the volume's root. So it is valid at every server, and needs no search.
//
// # Writes
//
// An unstable Write is in the memory of this process. FileSync, DataSync and Commit return when the octets are in the
// object store and their place is in the database. The write verifier is another one in each process, and changes when
// this process has lost octets that it had accepted: clients then send them again, also to another server.
//
// # Attributes
//
// Names and attributes are never cached: each call asks the database. Only size and mtime of files with unstable
// octets in this process are not what the others see.
//
// # Callers
//
// The caller is checked against mode bits and ACLs as Linux does, by JuiceFS inside the transaction where there is one.
package juicefs
