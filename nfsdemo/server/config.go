package server

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"path"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"go.uber.org/zap"
)

// Squash says which callers' ids are replaced by the anonymous ones.
type Squash int

// Ways to squash.
const (
	SquashRoot Squash = iota // uid 0 and gid 0
	SquashNone               // none
	SquashAll                // all
)

// String returns the name as in exports(5).
func (s Squash) String() string {
	switch s {
	case SquashRoot:
		return "root_squash"
	case SquashNone:
		return "no_root_squash"
	case SquashAll:
		return "all_squash"
	}
	return fmt.Sprintf("squash(%d)", int(s))
}

// Nobody is the default anonymous uid and gid.
const Nobody = 65534

// DefaultMaxIO is the default size of the largest READ and WRITE in octets.
const DefaultMaxIO = 1 << 20

// Export is a file system with a name.
type Export struct {
	// Path is the path that MNT names: absolute and clean, at most 1024 octets. Directories
	// below it can be mounted too.
	Path string
	// FS holds the files. The caller closes it, after the server.
	FS backend.FS
	// ReadOnly refuses every change with NFS3ERR_ROFS.
	ReadOnly bool
	// Squash says whose ids become AnonUID and AnonGID. The zero value squashes root. The id
	// 2^32-1, which is nobody's, always becomes anonymous. If the FS cannot act as others
	// (Info.Owners), every caller is the user of this process, whatever Squash says.
	Squash Squash
	// AnonUID and AnonGID are the anonymous ids. If both are zero, Nobody.
	AnonUID, AnonGID uint32
	// Allow lists the admitted client addresses; if empty, all. Others get MNT3ERR_ACCES and
	// NFS3ERR_ACCES.
	Allow []netip.Prefix
}

// Config says what a server serves. New copies it.
type Config struct {
	// Exports are the file systems that can be mounted: at least one, with different paths.
	Exports []Export
	// RequireSys answers AUTH_NONE calls with AUTH_TOOWEAK, except NULL, MOUNT and FSINFO.
	RequireSys bool
	// Guard, if not nil, orders calls with writes that arrive in another way.
	Guard Guard
	// MaxIO limits the octets of a READ or WRITE, and FSINFO announces it. It must be a multiple
	// of 4096 up to 1 GiB. If zero, DefaultMaxIO.
	MaxIO int
	// Logger gets a line for every backend error that is not an NFS status. If nil, nothing is
	// logged.
	Logger *zap.Logger
}

// fill checks c and returns a copy with the defaults in place.
func (c *Config) fill() (*Config, error) {
	out := *c
	if out.MaxIO == 0 {
		out.MaxIO = DefaultMaxIO
	}
	if out.MaxIO < 4096 || out.MaxIO%4096 != 0 || out.MaxIO > 1<<30 {
		return nil, fmt.Errorf("server: MaxIO %d: want a multiple of 4096 from 4096 to 1 GiB", out.MaxIO)
	}
	if out.Logger == nil {
		out.Logger = zap.NewNop()
	}
	if len(out.Exports) == 0 {
		return nil, errors.New("server: no exports: set Config.Exports")
	}
	return &out, nil
}

// export is an Export that is being served.
type export struct {
	Export
	id   uint32 // the first 4 octets of every handle
	info backend.Info
}

// newExports checks the exports and numbers them. The number is derived from the path, so that handles
// outlive the process.
func newExports(list []Export) ([]*export, error) {
	var out []*export
	ids := make(map[uint32]string)
	for _, e := range list {
		if e.FS == nil {
			return nil, fmt.Errorf("server: export %q has no FS", e.Path)
		}
		if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || len(e.Path) > maxMountPath {
			return nil, fmt.Errorf("server: export path %q is not absolute and clean", e.Path)
		}
		info := e.FS.Info()
		if e.AnonUID == 0 && e.AnonGID == 0 {
			e.AnonUID, e.AnonGID = Nobody, Nobody
		}
		if !info.Owners {
			e.AnonUID, e.AnonGID = info.UID, info.GID
		}
		h := fnv.New32a()
		h.Write([]byte(e.Path))
		id := h.Sum32()
		if other, ok := ids[id]; ok {
			return nil, fmt.Errorf("server: export paths %q and %q are the same or collide", other, e.Path)
		}
		ids[id] = e.Path
		out = append(out, &export{Export: e, id: id, info: info})
	}
	return out, nil
}

// nameMax is the longest name of an export in octets.
func (e *export) nameMax() int { return int(min(e.info.NameMax, nfs3.MaxName)) }
