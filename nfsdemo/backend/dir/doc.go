// Package dir implements package backend over a directory of the machine.
//
//	fsys, err := dir.New("/srv/data", nil)
//	defer fsys.Close()
//
// # Authority
//
// The kernel decides. As root, or with CAP_SETUID, CAP_SETGID and CAP_DAC_READ_SEARCH, each system call that a
// permission governs runs with the ids and groups of the caller (package caller): mode bits, ACLs, sticky and
// set-group-id directories, quotas and reserved blocks are those of the file system. New files get owner, group,
// mode and default ACL at once; the umask of this process applies, so a server sets it to 0. Otherwise every
// caller is the user of this process. [FS.Authority] says which.
//
// An open file is used again by the caller for whom the kernel has opened it, until its mode, owner, ACL or a flag of
// chattr(1) changes: then the kernel is asked again (faccessat2, Linux 5.8). On ext4, XFS, btrfs, F2FS and tmpfs the kernel
// reports changes (inotify); elsewhere the ctime tells, which a WRITE changes too, so that it asks each time.
// Up to MaxFiles files are watched, of those that fs.inotify.max_user_watches allows.
//
// # Handles
//
// A handle is the file system's own (name_to_handle_at), sealed with [Config.Key] for this directory: nobody
// can make one, and one of another export is none here. So a file is found at once, however many there are and
// whenever its handle was made. On another file system at the same path it is stale: the seal is also of the file system,
// which its UUID tells, or [Config.FSID]. Where there is no UUID, or file numbers are used again without a trace (FUSE,
// squashfs), handles end with the mount (before Linux 6.8 with the FS).
//
// Where there are none, or without CAP_DAC_READ_SEARCH, the handle holds device, inode number and birth time.
// A bounded table remembers where files were last seen. If a file is not in it (the server was restarted, or
// the table overflowed), or has moved, one walk over the export looks for all such files together. A client for which
// it has found none gets NFS3ERR_JUKEBOX for a multiple of its length ([FS.Resolve]). Files beyond [Config.SearchLimit]
// names are stale. Overlayfs has other numbers that tell files apart (Linux 6.6); elsewhere, without birth times, the handle of a removed file may lead to a new one
// until the file system is unmounted.
//
// # Confinement
//
// Every operation names one component in an open directory: no path, ".." or symbolic link is ever followed. A
// directory that somebody moves out of the export is out of it within a second. A file stays within reach of
// those who have its handle, as with the kernel's server (no_subtree_check), and of its own permissions.
//
// The server works in a private copy of the mount, which has none of the file systems mounted below it: these
// are not exported, and names show what lies under them. Without CAP_SYS_ADMIN there is no copy: paths in /proc
// tell what is in the export, and names of other file systems are NFS3ERR_ACCES. Only in the mode without
// handles are such file systems part of the export.
//
// # What stands at the path
//
// An open descriptor keeps the file system from being unmounted until Close. [FS.Check] says whether the directory
// still stands at its path, and works.
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
