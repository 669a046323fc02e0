// Package mem implements package backend in memory: for tests, for measurements without a disk,
// and as a scratch export.
//
//	fsys := mem.New(nil)
//	srv, err := server.New(&server.Config{Exports: []server.Export{{Path: "/mem", FS: fsys}}})
//
// Everything is lost when the process ends; handles of an earlier process get NFS3ERR_STALE.
// As long as the process lives, memory is the stable storage: every WRITE is FILE_SYNC at once,
// and the write verifier never changes.
//
// Files are sparse: only pages that were written take space, and [Config] limits their sum. All
// kinds of files can be made, devices included, but special files are no more than names.
//
// An FS has one lock for names, and one per file for data and attributes. Data are copied once
// on the way in and once on the way out.
package mem
