package backend

import "time"

// Quoter is implemented by an FS whose file system limits what users and groups store in it.
type Quoter interface {
	// Quota returns the limits of a user or a group, and what he stores. NFS3ERR_NOTSUPP: nothing is limited;
	// NFS3ERR_PERM: this process may not know.
	Quota(group bool, id uint32) (Quota, error)
}

// Quota is what somebody stores, and may store. A limit of 0 is none.
type Quota struct {
	Bytes, SoftBytes, HardBytes uint64
	Files, SoftFiles, HardFiles uint64
	// When the soft limits become hard ones, if he has exceeded them.
	BytesTill, FilesTill time.Time
}
