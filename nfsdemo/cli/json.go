package cli

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// fileJSON is a file in the output of ls --json and stat --json.
type fileJSON struct {
	Path   string    `json:"path"` // as in the URL, with the export
	Type   string    `json:"type"`
	Mode   string    `json:"mode"` // octal permission bits
	Links  uint32    `json:"links"`
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	Size   uint64    `json:"size"` // octets
	Used   uint64    `json:"used"` // octets on disk
	FSID   uint64    `json:"fsid"`
	FileID uint64    `json:"fileid"`
	Atime  time.Time `json:"atime"`
	Mtime  time.Time `json:"mtime"`
	Ctime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"` // of a symbolic link
	Handle string    `json:"handle,omitempty"` // hexadecimal; stat only
	// The octets of path and target if these are not UTF-8, which JSON cannot represent.
	PathOctets   []byte `json:"path_base64,omitempty"`
	TargetOctets []byte `json:"target_base64,omitempty"`
}

// newFileJSON describes a file.
func newFileJSON(n *nfsclient.Node, target string) *fileJSON {
	at := &n.Attr
	return &fileJSON{
		Path: n.Path, Type: typeName(n.Mode()), Mode: permissions(n), Links: at.Nlink, UID: at.UID, GID: at.GID,
		Size: at.Size, Used: at.Used, FSID: at.FSID, FileID: at.FileID,
		Atime: at.Atime.Time().UTC(), Mtime: at.Mtime.Time().UTC(), Ctime: at.Ctime.Time().UTC(), Target: target,
		PathOctets: foreign(n.Path), TargetOctets: foreign(target),
	}
}

// foreign returns the octets of a name that is not UTF-8, and nil for other names.
func foreign(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// printJSON prints v on one line of standard output.
func (a *app) printJSON(v any) error { return json.NewEncoder(a.stdout).Encode(v) }
