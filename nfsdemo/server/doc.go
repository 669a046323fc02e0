// Package server serves NFS version 3 and MOUNT version 3 (RFC 1813) from backends, over any transport
// that uses rpc.Handler: RPC-over-RDMA as well as record-marked TCP.
//
//	fsys, err := dir.New("/srv/data", nil)
//	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/srv/data", FS: fsys}}})
//	s := &transport.Server{Handler: h}
//	err = s.Serve(listener)
//
// # Order of refusals
//
// As in RFC 5531 Section 9: the credential, then program, version, procedure, arguments. Procedure 0 of
// every program answers any acceptable credential. NLM and NSM are PROG_UNAVAIL.
//
// # Identity and permissions
//
// A caller is the uid, gid and groups of its AUTH_SYS credential, changed by the export's [Squash]; AUTH_NONE is
// the anonymous user. The backend decides what this caller may do: over a directory that is the kernel, in memory the
// mode bits. Only what no file system knows is decided here: the addresses of an export, whether it is read-only, the
// guard of SETATTR.
//
// Where a backend cannot act as others (Info.Owners is false), every caller is the user of this process.
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
// No locking protocol, no RPCSEC_GSS. Whoever has a handle can use it from any address that
// Export.Clients admits, subject to the permissions of the file.
package server
