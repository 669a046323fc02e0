package nfs3

import "github.com/stag-rdma/stag/xdr"

// RPC numbers and limits (RFC 1813 Section 2).
const (
	Program = 100003 // NFS_PROGRAM
	Version = 3      // NFS_V3

	MaxHandle = 64 // NFS3_FHSIZE, octets
	VerfSize  = 8  // NFS3_COOKIEVERFSIZE, NFS3_CREATEVERFSIZE, NFS3_WRITEVERFSIZE
	MaxName   = 255
	MaxPath   = 4096 // longest symbolic link target served; Choice: PATH_MAX of Linux
)

// attrSize is the encoded size of an [Attr] in octets (RFC 1813 Section 2.5).
const attrSize = 84

// Access is the bit mask of ACCESS (RFC 1813 Section 3.3.4).
type Access uint32

// Access bits.
const (
	AccessRead    Access = 0x01 // read a file, list a directory
	AccessLookup  Access = 0x02 // look a name up in a directory
	AccessModify  Access = 0x04 // rewrite existing data or entries
	AccessExtend  Access = 0x08 // write new data or add entries
	AccessDelete  Access = 0x10 // delete an entry of a directory
	AccessExecute Access = 0x20 // execute a file
	AccessAll     Access = 0x3f
)

// Properties of FSINFO (RFC 1813 Section 3.3.19).
const (
	PropLink        uint32 = 0x01 // hard links
	PropSymlink     uint32 = 0x02 // symbolic links
	PropHomogeneous uint32 = 0x08 // PATHCONF is the same for all files
	PropCanSetTime  uint32 = 0x10 // SETATTR sets times to the server's precision
)

// FileHandle is an nfs_fh3: up to 64 octets that mean something only to the server
// (RFC 1813 Section 2.3.3).
type FileHandle []byte

func (h *FileHandle) Code(c *xdr.Coder) { c.Opaque((*[]byte)(h), MaxHandle) }

// CookieVerf, CreateVerf and WriteVerf are opaque 8-octet values (RFC 1813 Section 2.4).
type (
	CookieVerf [VerfSize]byte
	CreateVerf [VerfSize]byte
	WriteVerf  [VerfSize]byte
)
