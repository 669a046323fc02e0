package nfsclient

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

// Defaults of [Config].
const (
	DefaultInFlight    = 4
	DefaultMaxBlock    = 1 << 20
	defaultCommitEvery = 256 << 20
	defaultJukebox     = 30 * time.Second
	DefaultCallTimeout = 3 * time.Minute
	DefaultParallel    = 32
	DefaultMaxTree     = 1 << 24
	defaultDialTimeout = 10 * time.Second
)

// Config holds the settings of a client. A nil *Config and zero fields mean the defaults. New and
// Dial copy it. A setting out of range is an error that wraps rpc.ErrConfig. A value may be negative only if
// the field says what that means.
type Config struct {
	// Transport is passed on to transport.Dial and transport.DialStream. With TLS only the scheme nfs works. The
	// certificate must be for the host of the URL, if no ServerName is set. A MOUNT service on a port of its own is called
	// in clear if it offers no TLS, as Linux does. With GSS.Client calls of NFS are made in its context, and those of
	// MOUNT with Cred.
	Transport *transport.Config

	// Cred is the AUTH_SYS identity of every call (RFC 5531 Appendix A). If nil, the ids of
	// this process. The server need not believe it.
	Cred *xdr.SysCred

	// InFlight is the number of READs or WRITEs of one transfer in flight. If zero, 4. The
	// server's credits limit it too.
	InFlight int

	// CallTimeout limits the time of a call whose context has no deadline; then it is a *NoAnswerError. If
	// zero, Transport.Timeouts.Call, or 3 min, after which Linux gives up a soft mount over TCP; if negative,
	// calls wait for as long as the connection lasts. It works with Dial, not with New.
	CallTimeout time.Duration

	// Parallel is how many names RemoveAll handles at a time. If zero, 32. The server's credits limit it
	// too.
	Parallel int

	// MaxTree limits the names that RemoveAll finds below one directory; then it is ErrTreeEndless. If
	// zero, 16,777,216.
	MaxTree int64

	// MaxBlock limits the octets of one READ or WRITE, as do the rtmax and wtmax of the
	// server. If zero, 1 MiB.
	MaxBlock int

	// CommitEvery is the number of octets after which a long transfer sends COMMIT.
	// If zero, 256 MiB.
	CommitEvery int64

	// ReservedPort makes the client use a source port below 1024. Some servers require that;
	// it needs privileges. Dial fails if no such port is available.
	ReservedPort bool

	// Jukebox is how long a call is repeated if the server answers it with NFS3ERR_JUKEBOX
	// (RFC 1813 Section 2.6). If zero, 30 s; if negative, it is not repeated.
	Jukebox time.Duration

	// Tap, if not nil, is called with every new connection to NFS and MOUNT, and returns the
	// one to use instead, for example one that is recorded: (*capture.Writer).TapClient.
	Tap func(net.Conn) net.Conn

	// DialRDMA, if not nil, connects to the NFS port of nfs+rdma:// URLs instead of TCP: what it returns
	// may be an rdmap.Device. ReservedPort does not hold for it.
	DialRDMA func(ctx context.Context, addr string) (net.Conn, error)

	// DialTimeout limits the time for connecting, MOUNT and the first calls. If zero, 10 s.
	DialTimeout time.Duration

	// Reconnect is how long a call waits for a new connection to NFS when the current one is
	// lost (redial.Caller); then it is sent again. If zero, it fails at once. The first
	// connection is tried once, within DialTimeout.
	Reconnect time.Duration

	// Replies makes the replies to calls that are not idempotent durable before their callers
	// see them, if the server supports it (package replies). Set its Memory, and set Calls to
	// know after a crash which calls were not answered. Dial sets how it connects, and Choose
	// if that is nil. It works only with nfs+rdma. If nil, replies are not made durable.
	// Client.Replies returns what an earlier process has left.
	Replies *replies.Config

	rpcbindPort string // for tests; "": 111
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	err := setting.Check(
		setting.Count("InFlight", f.InFlight), setting.Count("Parallel", f.Parallel), setting.Count("MaxTree", f.MaxTree),
		setting.Count("MaxBlock", f.MaxBlock), setting.Count("CommitEvery", f.CommitEvery),
		setting.Time("DialTimeout", f.DialTimeout), setting.Time("Reconnect", f.Reconnect),
	)
	if err != nil {
		return nil, fmt.Errorf("nfsclient: %w", err)
	}
	if err := f.Transport.Check(); err != nil {
		return nil, err
	}
	if f.Cred == nil {
		f.Cred = ProcessCred()
	}
	f.InFlight = cmp.Or(f.InFlight, DefaultInFlight)
	f.MaxBlock = cmp.Or(f.MaxBlock, DefaultMaxBlock)
	f.CommitEvery = cmp.Or(f.CommitEvery, defaultCommitEvery)
	f.Jukebox = cmp.Or(f.Jukebox, defaultJukebox)
	f.DialTimeout = cmp.Or(f.DialTimeout, defaultDialTimeout)
	f.Parallel = cmp.Or(f.Parallel, DefaultParallel)
	f.MaxTree = cmp.Or(f.MaxTree, DefaultMaxTree)
	f.Transport = f.transport()
	if f.Tap == nil {
		f.Tap = func(c net.Conn) net.Conn { return c }
	}
	f.rpcbindPort = cmp.Or(f.rpcbindPort, strconv.Itoa(rpcbind.Port))
	return &f, nil
}

// nfsCred returns the credential of calls of NFS.
func (c *Config) nfsCred() xdr.Auth {
	if c.Transport.GSS.Client != nil {
		return xdr.Auth{Flavor: xdr.RPCSECGSS}
	}
	return c.Cred.Auth()
}

// transport returns a copy of Transport with the limit of CallTimeout.
func (c *Config) transport() *transport.Config {
	var t transport.Config
	if c.Transport != nil {
		t = *c.Transport
	}
	switch {
	case c.CallTimeout > 0:
		t.Timeouts.Call = c.CallTimeout
	case c.CallTimeout < 0:
		t.Timeouts.Call = 0
	case t.Timeouts.Call == 0:
		t.Timeouts.Call = DefaultCallTimeout
	}
	return &t
}

// ProcessCred returns the identity of this process, or that of nobody on systems without numeric
// ids.
func ProcessCred() *xdr.SysCred {
	const nobody = 65534
	cred := &xdr.SysCred{UID: nobody, GID: nobody}
	if uid := os.Getuid(); uid >= 0 {
		cred.UID, cred.GID = uint32(uid), uint32(os.Getgid())
		groups, _ := os.Getgroups() // no groups are valid too
		for _, g := range groups[:min(len(groups), xdr.MaxGIDs)] {
			cred.GIDs = append(cred.GIDs, uint32(g))
		}
	}
	if host, err := os.Hostname(); err == nil {
		cred.MachineName = host[:min(len(host), xdr.MaxMachineName)]
	}
	return cred
}
