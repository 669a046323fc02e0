// Package dir implements package backend over a directory of the machine.
//
//	fsys, err := dir.New("/srv/data", nil)
//	defer fsys.Close()
//
// # Confinement
//
// Every directory is opened with os.Root from the one above it, starting at the export, and
// every operation names one component in an open directory: no path, ".." or symbolic link is
// ever followed. Before an open file or directory is used, its identity is compared with the
// one in the handle.
//
// # Handles
//
// A handle holds device, inode number and birth time. It does not hold a path, so it survives
// renames, by the server and by local processes, and is the same under all names of a file. A
// bounded table remembers where files were last seen. If a handle is not in it (the server was
// restarted, or the table overflowed), or its file has moved, one walk over the export looks
// for all such files together; meanwhile callers get NFS3ERR_JUKEBOX. So handles survive a
// restart, at the price of a walk over at most [Config.SearchLimit] names; files beyond that
// limit are stale.
//
// The birth time distinguishes files that have had the same inode number. On file systems
// without it (and on overlayfs, whose birth times change) the handle of a removed file may
// lead to a new one.
//
// File systems mounted below the export are part of it; their fsids differ.
//
// # Durability
//
// WRITE with DATA_SYNC ends with fdatasync; WRITE with FILE_SYNC and COMMIT end with fsync.
// After a change of names or attributes the file and the directories concerned are synced too,
// unless [Config.Async]. The write verifier is random per New. It changes after every failed
// sync, before the failure is answered, so that clients send again whatever may be lost; a
// WRITE returns the verifier that was valid before its first octet. A file is synced before
// its cached descriptor is closed, because errors of its writes might go unnoticed otherwise.
//
// # Identity
//
// If the process runs as root, new files belong to the caller, and SETATTR can change owners.
// Otherwise the kernel applies the permissions of the process to everything, and new files
// belong to its user.
//
// # Exclusive create
//
// The verifier is stored in the access and modification times of the new file, 31 bits of each
// half, as Linux does. The client sets the times with SETATTR afterwards.
//
// # Other systems
//
// On systems other than Linux, identities are derived from paths, so handles survive only
// renames of the file itself; special files cannot be made; and cookies are hashes of names.
package dir
