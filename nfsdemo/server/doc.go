// Package server serves NFS version 3 and MOUNT version 3 (RFC 1813) from backends, over any transport
// that uses transport.Handler: RPC-over-RDMA as well as record-marked TCP.
//
//	fsys, err := dir.New("/srv/data", nil)
//	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/srv/data", FS: fsys}}})
//	s := &transport.Server{Handler: h}
//	err = s.Serve(listener)
//
// # Order of refusals
//
// As in RFC 5531 Section 9: the credential, then program, version, procedure, arguments. Procedure 0 of
// every program answers any acceptable credential. NFSACL, NLM and NSM are PROG_UNAVAIL.
//
// # Identity and permissions
//
// A caller is the uid, gid and groups of its AUTH_SYS credential, changed by the export's [Squash];
// AUTH_NONE is the anonymous user, or AUTH_TOOWEAK with Config.RequireSys. Every procedure checks
// mode bits against these ids, with the two exceptions that a protocol without OPEN needs (RFC 1813
// Section 4.4): the owner of a file may always read and write it, and whoever may execute a file
// may read it. If Info.Owners of a backend is true, new files belong to the caller, or to the group
// of a set-group-id directory.
//
// The file system under a dir backend also checks, with the ids of this process. Without privileges, new
// files belong to the user of this process: callers with other ids have the rights that these files give
// to others, unless SquashAll makes every caller that user. A squashed root is that user too.
//
// # Data
//
// READ lets the backend fill the transport's buffer, and WRITE passes it the octets where the transport
// has received them: no copy is made here. Both are limited to Config.MaxIO, which FSINFO announces.
//
// # Weak cache consistency
//
// "before" attributes are sent only if the backend can guarantee them (Info.AtomicWcc); "after"
// attributes always, if they are available.
//
// # Limits
//
// No locking protocol, no ACLs, no RPCSEC_GSS. Handles are not secret: whoever can guess one can use it
// from any address that Export.Allow admits, subject to the permissions of the file.
package server
