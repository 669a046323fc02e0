// Package server serves NFS version 3 and MOUNT version 3 (RFC 1813) from backends, over any
// transport that speaks transport.Handler: RPC-over-RDMA and record-marked TCP alike.
//
//	fsys, err := dir.New("/srv/data", nil)
//	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/srv/data", FS: fsys}}})
//	s := &transport.Server{Handler: h}
//	err = s.Serve(listener)
//
// # Order of refusals
//
// As RFC 5531 Section 9 has it: the credential, then program, version, procedure, arguments.
// Procedure 0 of every program answers any acceptable credential. NFSACL, NLM and NSM are
// PROG_UNAVAIL.
//
// # Identity and permissions
//
// A caller is the uid, gid and groups of its AUTH_SYS credential, changed by the export's
// [Squash]; AUTH_NONE is the anonymous user, or AUTH_TOOWEAK with Config.RequireSys. Every
// procedure checks mode bits against these ids, with the two allowances that a protocol
// without OPEN needs (RFC 1813 Section 4.4): the owner of a file may always read and write
// it, and who may execute a file may read it. On a backend whose Info.Owners is true new
// files belong to the caller, or to the group of a set-group-id directory.
//
// The file system under a dir backend checks too, with the ids of this process. Run without
// privileges, new files are its user's: callers with other ids meet the permissions that
// user's files have for others, unless SquashAll makes every caller that user. A squashed
// root is that user too.
//
// # Data
//
// READ lets the backend fill the transport's own buffer, WRITE hands it the octets where the
// transport received them: no copy is made here. Both are cut to Config.MaxIO, which FSINFO
// announces.
//
// # Weak cache consistency
//
// "before" attributes are sent only by backends that can say so truly (Info.AtomicWcc);
// "after" attributes always, where they can be had.
//
// # Limits
//
// No locking protocol, no ACLs, no RPCSEC_GSS. Handles are not secret: who can guess one can
// use it from any address Export.Allow admits, subject to the permissions of the file.
package server
