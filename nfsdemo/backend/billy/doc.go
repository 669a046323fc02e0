// Package billy serves a file system that was written for go-billy, or for io/fs, over NFS: New makes a
// [backend.FS] of it, and [ReadOnly] makes a go-billy file system of an [io/fs.FS].
//
// # What it keeps
//
// go-billy names files by paths, NFS by handles that stay valid when a file is renamed. So an FS keeps a node for
// each file that a client has seen, up to Config.MaxFiles; a client that comes back to a file that was forgotten, or
// to an FS of an earlier process, gets NFS3ERR_STALE. Files that change behind the back of an FS keep the handle
// of their path. Access times, times of the last change of a status, and verifiers of exclusive CREATEs are kept
// with the nodes.
//
// # What go-billy cannot do
//
// There are no hard links and no special files. Modes, owners and times can be set if the file system implements
// billy.Change. Data are as durable as its files: if these have a method Sync() error, as those of package osfs do,
// it is called before a WRITE or COMMIT says that data are stable. Every caller has the rights of this process.
//
// # Concurrency
//
// Many go-billy file systems, like memfs, must not be used by several goroutines at a time. So one call runs at a
// time, unless Config.Concurrent is set: then calls wait for each other only where one moves or removes a name that
// another is using, or a directory above it.
package billy
