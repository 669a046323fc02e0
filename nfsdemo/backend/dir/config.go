package dir

import (
	"cmp"
	"fmt"

	"github.com/stag-rdma/stag/internal/setting"
)

// Defaults of [Config].
const (
	defaultMaxNodes    = 1 << 18
	defaultMaxFiles    = 256
	defaultMaxHeld     = 1024
	defaultSearchLimit = 1 << 20
)

// Config says how a directory is served. New copies it; nil means the defaults. A setting out of range is an
// error that wraps rpc.ErrConfig.
type Config struct {
	// Async omits the fsync after changes of names and attributes: a crash of the machine
	// may undo them. WRITE and COMMIT are not affected.
	Async bool
	// Exclusive promises that nobody else changes the directory. Then replies contain the
	// attributes from before a change, and clients need not empty their caches.
	Exclusive bool
	// Key seals handles, so that clients can use only those that they were given. Handles
	// survive a restart if the key does, so keep it, where only this process can read it. It
	// has 32 octets or more. If empty, New draws one.
	Key []byte
	// FSID is the administrator's word on which file system this is: handles last as long as it stays the same. If
	// empty, the UUID of the file system tells it from others at the same path. One without a UUID, or whose file numbers
	// are used again without a trace (FUSE, squashfs), counts as another one each time it is mounted: its handles
	// are stale then.
	FSID string
	// Mountpoint, if not empty, is a path where something must be mounted: New and FS.Check fail if nothing is, so that
	// no files go below the mount point of a disk that is away. Linux only.
	Mountpoint string
	// MaxFiles limits the number of files kept open for READ and WRITE, one descriptor for
	// each caller and direction. If zero, 256, at most an eighth of what the process may open.
	MaxFiles int
	// MaxHeld limits the number of files and directories of which a descriptor without
	// rights is kept. If zero, 1024, at most a quarter of what the process may open.
	MaxHeld int
	// MaxNodes limits the number of files whose place is remembered, about 200 octets each,
	// where the file system has no handles of its own. If zero, 262,144.
	MaxNodes int
	// SearchLimit limits the number of names that one search for files in unknown places
	// looks at, where the file system has no handles of its own. If zero,
	// 1,048,576; if negative, there is no search.
	SearchLimit int

	places bool // set by tests: no handles of the file system
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	err := setting.Check(
		setting.Count("MaxFiles", out.MaxFiles), setting.Count("MaxHeld", out.MaxHeld), setting.Count("MaxNodes", out.MaxNodes),
	)
	if n := len(out.Key); err == nil && n > 0 && n < keySize {
		err = setting.Error("Key has %d octets, want %d or more, or none for a key that is drawn", n, keySize)
	}
	if err != nil {
		return out, fmt.Errorf("dir: %w", err)
	}
	out.MaxNodes = cmp.Or(out.MaxNodes, defaultMaxNodes)
	// The rest is for connections and other directories. When it does not suffice, the caches give way.
	most := MaxDescriptors()
	out.MaxFiles = cmp.Or(out.MaxFiles, min(defaultMaxFiles, max(most/8, 1)))
	out.MaxHeld = cmp.Or(out.MaxHeld, min(defaultMaxHeld, max(most/4, 1)))
	out.SearchLimit = cmp.Or(out.SearchLimit, defaultSearchLimit)
	return out, nil
}
