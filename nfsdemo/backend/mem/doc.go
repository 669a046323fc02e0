// Package mem is a file system in memory behind the backend interface: for tests, for
// measurements without a disk, and as a scratch export.
//
//	fsys := mem.New(nil)
//	srv, err := server.New(&server.Config{Exports: []server.Export{{Path: "/mem", FS: fsys}}})
//
// Everything is lost when the process ends; the handles of an earlier process are answered
// with NFS3ERR_STALE. Within its life memory is the stable storage: every WRITE is FILE_SYNC
// at once and the write verifier never changes.
//
// Files are sparse: only pages that were written take space, and [Config] bounds their sum.
// All kinds of file can be made, devices included; they are names only.
//
// A FS has one lock for names and one per file for data and attributes. Data are copied
// once on the way in and once on the way out.
package mem
