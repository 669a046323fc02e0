package nfsclient

import (
	"net"
	"os"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/xdr"
)

// Defaults of [Config].
const (
	DefaultInFlight    = 4
	DefaultMaxBlock    = 1 << 20
	DefaultCommitEvery = 256 << 20
	DefaultJukebox     = 30 * time.Second
	DefaultDialTimeout = 10 * time.Second
)

// Config holds the settings of a client. A nil *Config and zero fields mean the
// defaults. It is copied when it is passed.
type Config struct {
	// Transport is passed on to transport.Dial and transport.DialStream.
	Transport *transport.Config

	// Cred is the AUTH_SYS identity of every call (RFC 5531 Appendix A). If nil, the
	// ids of this process. The server decides what it believes.
	Cred *xdr.SysCred

	// InFlight is the number of READs or WRITEs of one transfer under way at a time.
	// If zero, 4. The server's credits bound it too.
	InFlight int

	// MaxBlock bounds the octets of one READ or WRITE, below the rtmax and wtmax of
	// the server. If zero, 1 MiB.
	MaxBlock int

	// CommitEvery is the number of octets after which a long transfer sends COMMIT.
	// If zero, 256 MiB.
	CommitEvery int64

	// ReservedPort makes the client use a source port below 1024, which some servers
	// demand and which needs privileges. A port that cannot be had is an error.
	ReservedPort bool

	// Jukebox is how long a call is repeated that the server answers with
	// NFS3ERR_JUKEBOX (RFC 1813 Section 2.6). If zero, 30 s; if negative, never.
	Jukebox time.Duration

	// Tap, if not nil, is given every connection to NFS and MOUNT once it is open, and
	// returns what is used in its place, for example one that is recorded:
	// (*capture.Writer).TapClient.
	Tap func(net.Conn) net.Conn

	// DialTimeout bounds connecting, MOUNT and the first calls. If zero, 10 s.
	DialTimeout time.Duration

	// Reconnect is how long a call waits for another connection to NFS when the present one
	// is lost (transport.Redialer): then it is sent again. If zero, it fails at once. The first
	// connection is DialTimeout's: a server that refuses it is an error at once.
	Reconnect time.Duration

	// Push lets Client.PushFrom and OpenPush write files by push, if the server has that. Dial
	// then switches on the backward direction of the connection. If nil, they are not.
	Push *PushConfig

	// Replies makes the replies to what is not idempotent durable before they count, if the
	// server has that (package replies): set its Memory, and Calls to know after a crash what
	// was not answered. Dial sets how it connects, and, if nil, Choose. By nfs+rdma only. If
	// nil, they are not. Client.Replies tells what was found.
	Replies *replies.Config

	rpcbindPort string // for tests; "": 111
}

// fill returns a copy of c with the defaults in place.
func (c *Config) fill() *Config {
	var f Config
	if c != nil {
		f = *c
	}
	if f.Cred == nil {
		f.Cred = ProcessCred()
	}
	if f.InFlight <= 0 {
		f.InFlight = DefaultInFlight
	}
	if f.MaxBlock <= 0 {
		f.MaxBlock = DefaultMaxBlock
	}
	if f.CommitEvery <= 0 {
		f.CommitEvery = DefaultCommitEvery
	}
	if f.Jukebox == 0 {
		f.Jukebox = DefaultJukebox
	}
	if f.DialTimeout <= 0 {
		f.DialTimeout = DefaultDialTimeout
	}
	if f.Tap == nil {
		f.Tap = func(c net.Conn) net.Conn { return c }
	}
	if f.rpcbindPort == "" {
		f.rpcbindPort = portmapPort
	}
	return &f
}

// ProcessCred returns the identity of this process; on systems without numeric ids,
// nobody's.
func ProcessCred() *xdr.SysCred {
	const nobody = 65534
	cred := &xdr.SysCred{UID: nobody, GID: nobody}
	if uid := os.Getuid(); uid >= 0 {
		cred.UID, cred.GID = uint32(uid), uint32(os.Getgid())
		groups, _ := os.Getgroups() // none is a valid answer
		for _, g := range groups[:min(len(groups), xdr.MaxGIDs)] {
			cred.GIDs = append(cred.GIDs, uint32(g))
		}
	}
	if host, err := os.Hostname(); err == nil {
		cred.MachineName = host[:min(len(host), xdr.MaxMachineName)]
	}
	return cred
}
