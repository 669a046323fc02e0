package judge

// nfsRules are the rules NFS-*: NFS version 3 and MOUNT (RFC 1813), NFS version 4 as far as its COMPOUNDs are decoded.
var nfsRules = []*Rule{
	{"NFS-001", "RFC 1813 Section 2", Must, Error, "Arguments decode: lengths within their bounds, enumerations and booleans defined.", "rpc-nfs3 5"},
	{"NFS-002", "RFC 1813 Section 2", Must, Error, "Results decode: lengths within their bounds, enumerations and booleans defined.", "rpc-nfs3 5"},
	{"NFS-003", "RFC 5531 Section 9", Must, Error, "A call whose arguments do not decode is answered by GARBAGE_ARGS.", "rpc-nfs3 2"},
	{"NFS-004", "RFC 1813 Section 2.6", Must, Error, "The status is one that the protocol defines.", "rpc-nfs3 5"},
	{"NFS-005", "RFC 1813 Section 3.3", Should, Warning, "The status is one that the procedure lists.", "rpc-nfs3 6.1"},
	{"NFS-010", "RFC 1813 Section 3.3.7", Must, Error, "count of WRITE is the length of its data.", "rpc-nfs3 6.2"},
	{"NFS-011", "RFC 1813 Section 3.3.7", Must, Error, "WRITE has written no more octets than asked.", "rpc-nfs3 6.2"},
	{"NFS-012", "RFC 1813 Section 3.3.7", Must, Error, "committed is at least as strong as the stability that was asked for.", "rpc-nfs3 6.2"},
	{"NFS-013", "RFC 1813 Section 3.3.7", Must, Note, "The write verifier stays the same while the server does.", "rpc-nfs3 6.2"},
	{"NFS-020", "RFC 1813 Section 3.3.6", Must, Error, "count of a READ reply is the length of its data.", "rpc-nfs3 6.2"},
	{"NFS-021", "RFC 1813 Section 3.3.6", Must, Error, "READ returns no more octets than asked.", "rpc-nfs3 6.2"},
	{"NFS-022", "RFC 1813 Section 3.3.6", Must, Warning, "eof of READ is true exactly when the octets reach the size in the attributes.", "rpc-nfs3 6.2"},
	{"NFS-030", "RFC 1813 Section 3.3.16", Must, Warning, "The results of READDIR and READDIRPLUS are not larger than count and maxcount.", "rpc-nfs3 6.2"},
	{"NFS-031", "RFC 1813 Section 3.3.16", Must, Warning, "A listing that begins (with cookie 0) has verifier 0.", "rpc-nfs3 6.2"},
	{"NFS-032", "RFC 1813 Section 3.3.16", Must, Error, "The names of a listing are not empty and hold neither / nor NUL.", "rpc-nfs3 6.2"},
	{"NFS-040", "RFC 1813 Section 3.3.4", Must, Error, "ACCESS grants nothing that was not asked for.", "rpc-nfs3 6.2"},
	{"NFS-041", "RFC 1813 Section 3.3.4", Must, Warning, "ACCESS asks for the six rights that are defined.", "rpc-nfs3 5"},
	{"NFS-042", "RFC 1813 Section 2.5", Should, Warning, "The nanoseconds of a time are less than a second.", "rpc-nfs3 5"},
	{"NFS-043", "RFC 1813 Section 3.2", Should, Note, "The names of a call are not empty and hold neither / nor NUL.", "rpc-nfs3 6.2"},
	{"NFS-045", "RFC 1813 Section 3.3.19", Should, Warning, "Preferred sizes of FSINFO are not larger than the largest.", "rpc-nfs3 6.2"},
	{"NFS-046", "RFC 1813 Section 3.3.19", Should, Warning, "READ and WRITE ask for no more than rtmax and wtmax of FSINFO.", "rpc-nfs3 6.2"},
	{"NFS-050", "RFC 8881 Section 16.2.3", Must, Error, "The results of a COMPOUND are those of its operations, in order, up to the first that failed.", "nfs4 1"},
	{"NFS-051", "RFC 8881 Section 16.2.3", Must, Error, "A COMPOUND ends with the operation that fails, and has the status of its last operation.", "nfs4 1"},
	{"NFS-052", "RFC 8881 Section 16.2.3", Must, Error, "The reply to a COMPOUND has the tag of the call.", "nfs4 1"},
}
