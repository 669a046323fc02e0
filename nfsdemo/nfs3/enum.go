package nfs3

import "strconv"

// FileType is an ftype3 (RFC 1813 Section 2.3.5).
type FileType uint32

// File types.
const (
	TypeReg  FileType = 1 // regular file
	TypeDir  FileType = 2 // directory
	TypeBlk  FileType = 3 // block device
	TypeChr  FileType = 4 // character device
	TypeLnk  FileType = 5 // symbolic link
	TypeSock FileType = 6 // socket
	TypeFIFO FileType = 7 // named pipe
)

var typeNames = [...]string{1: "NF3REG", "NF3DIR", "NF3BLK", "NF3CHR", "NF3LNK", "NF3SOCK", "NF3FIFO"}

// String returns the name in RFC 1813.
func (t FileType) String() string { return enumName(typeNames[:], uint32(t), "ftype3") }

// TimeHow says where a time of SETATTR comes from (RFC 1813 Section 2.6).
type TimeHow uint32

// Ways to set a time.
const (
	DontChange TimeHow = 0
	ServerTime TimeHow = 1 // SET_TO_SERVER_TIME
	ClientTime TimeHow = 2 // SET_TO_CLIENT_TIME
)

var timeNames = [...]string{"DONT_CHANGE", "SET_TO_SERVER_TIME", "SET_TO_CLIENT_TIME"}

// String returns the name in RFC 1813.
func (h TimeHow) String() string { return enumName(timeNames[:], uint32(h), "time_how") }

// StableHow is the stability of written data (RFC 1813 Section 3.3.7).
type StableHow uint32

// Stability levels, in increasing order.
const (
	Unstable StableHow = 0 // may be lost until COMMIT
	DataSync StableHow = 1 // data, and the attributes needed to find them
	FileSync StableHow = 2 // data and all attributes
)

var stableNames = [...]string{"UNSTABLE", "DATA_SYNC", "FILE_SYNC"}

// String returns the name in RFC 1813.
func (s StableHow) String() string { return enumName(stableNames[:], uint32(s), "stable_how") }

// CreateMode is a createmode3 (RFC 1813 Section 3.3.8).
type CreateMode uint32

// Ways to create a file.
const (
	Unchecked CreateMode = 0 // an existing file is opened
	Guarded   CreateMode = 1 // an existing file is an error
	Exclusive CreateMode = 2 // idempotent by a verifier
)

var createNames = [...]string{"UNCHECKED", "GUARDED", "EXCLUSIVE"}

// String returns the name in RFC 1813.
func (m CreateMode) String() string { return enumName(createNames[:], uint32(m), "createmode3") }

// enumName returns the name of v; unknown values print as kind(0x2a).
func enumName(names []string, v uint32, kind string) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return kind + "(0x" + strconv.FormatUint(uint64(v), 16) + ")"
}
