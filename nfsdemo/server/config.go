package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/gss"
	"go.uber.org/zap"
)

// defaultMaxIO is in octets.
const defaultMaxIO = 1 << 20

// User is a user of this machine.
type User struct {
	UID  uint32   // 2^32-1: not known which
	GIDs []uint32 // the primary group first; empty: not known, and no group is believed
}

// Config says what a server serves. New copies it. A setting out of range is an error that wraps
// rpc.ErrConfig.
type Config struct {
	// Exports are the file systems that can be mounted: at least one, with different paths.
	Exports []Export
	// RequireSys answers AUTH_NONE calls with AUTH_TOOWEAK, except NULL, MOUNT and FSINFO.
	RequireSys bool
	// Local, if not nil, says who on this machine is at the other end of a connection. A user
	// other than root may claim only his own uid, and gets only his own groups. Other calls, and all of one who
	// is not known, are denied with AUTH_BADCRED, except where no identity matters. It must be fast.
	Local func(a net.Addr) (u User, ok bool)
	// Groups, if not nil, says which groups a uid has, in place of those of AUTH_SYS other than the first (the gid), of which
	// there is room for 16. With wait it may take some time; without, it returns false if it would.
	Groups func(uid uint32, wait bool) (gids []uint32, ok bool)
	// Principal says which user of this machine a principal is, who has proved to be the caller. Those that it does not
	// know are anonymous. If nil, it knows none. It may take some time.
	Principal func(gss.Principal) (u User, ok bool)
	// Named says whether a name of Client.Names is that of an address. While that is not known it waits for ctx, and
	// returns an error: calls of NFS do not wait, and get NFS3ERR_JUKEBOX. Without it no client may have names.
	Named func(ctx context.Context, name string, ip netip.Addr) (bool, error)
	// Mounted is what Mounts returned before this process, the oldest first. MountsChanged, if not nil, is called after each
	// change of the list, by calls that wait for it.
	Mounted       []Mount
	MountsChanged func()
	// MaxIO limits the octets of a READ or WRITE, and FSINFO announces it. It must be a multiple
	// of 4096 up to 1 GiB. If zero, 1 MiB.
	MaxIO int
	// Logger gets a line for every backend error that is not an NFS status. If nil, nothing is
	// logged.
	Logger *zap.Logger
}

// fill checks c and returns a copy with the defaults in place.
func (c *Config) fill() (*Config, error) {
	out := *c
	out.MaxIO = cmp.Or(out.MaxIO, defaultMaxIO)
	if len(out.Exports) == 0 {
		return nil, errors.New("server: no exports: set Config.Exports")
	}
	err := setting.Check(setting.Int("MaxIO", out.MaxIO, 4096, 1<<30))
	if err == nil && out.MaxIO%4096 != 0 {
		err = setting.Error("MaxIO is %d, want a multiple of 4096", out.MaxIO)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if out.Logger == nil {
		out.Logger = zap.NewNop()
	}
	return &out, nil
}
