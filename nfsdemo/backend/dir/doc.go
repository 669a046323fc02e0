// Package dir is a real directory behind the backend interface.
//
//	fsys, err := dir.New("/srv/data", nil)
//	defer fsys.Close()
//
// # Confinement
//
// Every directory is opened with os.Root from the one above it, beginning at the export, and
// every operation names one component in an open directory: no path, no "..", no symbolic
// link is ever followed. What an open directory or file turns out to be is compared with the
// identity the handle promises before it is used.
//
// # Handles
//
// A handle holds device, inode number and birth time. It does not hold a path, so it
// survives renames through the server and by local processes, and it is the same under all
// names of a file. A bounded table remembers where files were last seen. A handle that is
// not in it, because the server was restarted or the table overflowed, or whose file is no
// longer there, is looked for by one walk over the export for all such handles together;
// meanwhile callers get NFS3ERR_JUKEBOX. So handles survive a restart, at the price of a walk
// over at most [Config.SearchLimit] names; beyond that they are stale.
//
// The birth time tells apart files that got the same inode number one after the other. On
// file systems that have none (and on overlayfs, whose birth times change) a new file may be
// reached through the handle of a removed one.
//
// File systems mounted below the export are part of it: fsid tells them apart.
//
// # Durability
//
// WRITE with DATA_SYNC ends with fdatasync, with FILE_SYNC and at COMMIT with fsync. Changes
// of names and attributes are followed by fsync of the file and the directories concerned,
// unless [Config.Async]. The write verifier is random per New and changes after every failed
// sync, before the failure is answered, so that a client sends again whatever may be lost;
// a WRITE answers with the verifier that was valid before its first octet. A file is synced
// before its cached descriptor is closed, since an error of its writes might go unseen
// otherwise.
//
// # Identity
//
// Run by root, new files belong to the caller, and SETATTR changes owners. Otherwise the
// kernel applies the permissions of this process to everything, and new files are its own.
//
// # Exclusive create
//
// The verifier is kept in the access and modification time of the new file, 31 bits of each
// half, as Linux does; the client replaces them by SETATTR.
//
// # Other systems
//
// On systems other than Linux identities are made of paths, so handles survive only renames
// of the file itself, special files cannot be made, and cookies are hashes of names.
package dir
