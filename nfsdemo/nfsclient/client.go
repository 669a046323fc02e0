package nfsclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
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

// Client is one export of one server. It is safe for concurrent use.
type Client struct {
	rpc     program
	cfg     *Config
	info    nfs3.FSInfoRes
	root    *Node
	export  string   // the mounted path: the path of root
	exports []string // all exports of the server, nil if it does not list them
	reads   *freeList
	writes  *freeList

	listings atomic.Int64 // octets of pages of directories that are held now
}

// New makes a client from a connection to an NFS server and the handle of a root with the path
// export. It takes caller, and closes it if it fails. It calls FSINFO and GETATTR (RFC 1813
// Sections 3.3.19 and 3.3.1).
func New(ctx context.Context, caller rpc.Caller, root nfs3.FileHandle, export string, cfg *Config) (*Client, error) {
	cfg, err := cfg.fill()
	if err != nil {
		caller.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	c := &Client{
		rpc:    program{caller: caller, prog: nfs3.Program, vers: nfs3.Version, cred: cfg.nfsCred()},
		cfg:    cfg,
		root:   &Node{Path: export, FH: root},
		export: export,
	}
	if err = c.call(ctx, nfs3.ProcFSInfo, &nfs3.FSInfoArgs{Handle: root}, &c.info); err == nil {
		err = c.Refresh(ctx, c.root)
	}
	if err != nil {
		caller.Close() //nolint:errcheck // the first error counts
		return nil, pathErr("mount", export, err)
	}
	block := func(most, pref uint32) *freeList {
		n := min(uint32(c.cfg.MaxBlock), most, cmp.Or(pref, most))
		return &freeList{int(cmp.Or(n, 4096)), make(chan []byte, 2*c.cfg.InFlight)} // 4 KiB if the server's limits are useless
	}
	c.reads, c.writes = block(c.info.RTMax, c.info.RTPref), block(c.info.WTMax, c.info.WTPref)
	return c, nil
}

// Info returns the result of FSINFO.
func (c *Client) Info() nfs3.FSInfoRes { return c.info }

// Root returns the root of the export.
func (c *Client) Root() *Node { n := *c.root; return &n }

// Export returns the path that was mounted. All paths of this client begin with it.
func (c *Client) Export() string { return c.export }

// Caller returns the connection, for calls of other programs at the same server. It ends with c.
func (c *Client) Caller() rpc.Caller { return c.rpc.caller }

// Stats returns the counters of the connection.
func (c *Client) Stats() rpc.Stats { return c.rpc.caller.Stats() }

// Null calls procedure 0: a round trip.
func (c *Client) Null(ctx context.Context) error { return c.rpc.null(ctx) }

// Close ends the connection. Choice: no UMNT is sent; the server's list of mounts
// is informational (RFC 1813 Section 5.2.3).
func (c *Client) Close() error {
	return c.rpc.caller.Close()
}

// call runs one procedure whose arguments and results are sent whole.
func (c *Client) call(ctx context.Context, proc nfs3.Proc, args xdr.Message, res nfs3.Result) error {
	return c.exchange(ctx, &rpc.Call{Proc: uint32(proc), Args: xdr.Encode(nil, args), MaxResults: proc.MaxRes()}, res, nil)
}

// exchange runs one procedure whose results are sent whole. keep, if not nil, is called with OK results while what they
// lend is valid. A status other than OK is a *StatusError.
func (c *Client) exchange(ctx context.Context, call *rpc.Call, res nfs3.Result, keep func() error) error {
	proc := nfs3.Proc(call.Proc)
	return c.send(ctx, proc, call, func(d *xdr.Decoder, _ *rpc.Reply) error {
		if err := xdr.Decode(d, res).Err(); err != nil {
			return err
		}
		if s := *res.Stat(); s != nfs3.OK {
			return &StatusError{Proc: proc, Status: s}
		}
		if keep == nil {
			return nil
		}
		return keep()
	})
}

// Delays between calls that were answered with JUKEBOX.
const (
	jukeboxFirst = 50 * time.Millisecond
	jukeboxMost  = 5 * time.Second
)

// send runs one call, and repeats it while the server answers JUKEBOX: "the client should … wait a
// while and then retry the operation" (RFC 1813 Section 2.6), with a new XID.
func (c *Client) send(ctx context.Context, proc nfs3.Proc, call *rpc.Call, parse func(*xdr.Decoder, *rpc.Reply) error) error {
	var until time.Time
	for delay := jukeboxFirst; ; delay = min(2*delay, jukeboxMost) {
		err := c.rpc.do(ctx, call, parse)
		if !isStatus(err, nfs3.ErrJukebox) || c.cfg.Jukebox < 0 {
			return c.callErr(ctx, proc, err)
		}
		if until.IsZero() {
			until = time.Now().Add(c.cfg.Jukebox)
		}
		if time.Until(until) < delay {
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// callErr adds the procedure to an error of decoding its results, and to the lack of any.
func (c *Client) callErr(ctx context.Context, proc nfs3.Proc, err error) error {
	oe, ok := errors.AsType[*rpc.OpError](err)
	unconnected := ok && oe.Op == rpc.OpDial // which ended with another limit
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !unconnected {
		return &NoAnswerError{Proc: proc, After: c.cfg.Transport.Timeouts.Call, Dropped: c.Stats().Dropped}
	}
	if de, ok := errors.AsType[*xdr.DecodeError](err); ok {
		return &badResults{proc, de}
	}
	return err
}

// badResults is an answer that cannot be decoded.
type badResults struct {
	proc nfs3.Proc
	err  error
}

func (e *badResults) Error() string {
	return "the server's answer to " + e.proc.String() + " cannot be decoded: " + e.err.Error()
}
func (e *badResults) Unwrap() []error { return []error{ErrBadReply, e.err} }

// Node is a file on the server: its handle, and the path and attributes with which it was found. It
// belongs to the caller; only methods that say so update it.
type Node struct {
	Path string // clean, begins with the export
	FH   nfs3.FileHandle
	Attr nfs3.Attr
}

// memory is about what n takes, in octets.
func (n *Node) memory() int { return entrySize + len(n.Path) + len(n.FH) }

// Name returns the last element of the path.
func (n *Node) Name() string { return path.Base(n.Path) }

// IsDir reports whether n is a directory.
func (n *Node) IsDir() bool { return n.Attr.Type == nfs3.TypeDir }

// IsRegular reports whether n is a regular file.
func (n *Node) IsRegular() bool { return n.Attr.Type == nfs3.TypeReg }

// IsSymlink reports whether n is a symbolic link.
func (n *Node) IsSymlink() bool { return n.Attr.Type == nfs3.TypeLnk }

// Size returns the size in octets, at most 2^63-1.
func (n *Node) Size() int64 { return int64(min(n.Attr.Size, 1<<63-1)) }

// ModTime returns the time of the last change of the data.
func (n *Node) ModTime() time.Time { return n.Attr.Mtime.Time() }

// Mode returns type and permission bits in Go's form.
func (n *Node) Mode() fs.FileMode {
	m := fs.FileMode(n.Attr.Mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n.Attr.Mode&bit != 0 {
			m |= flag
		}
	}
	return m | typeBits(n.Attr.Type)
}

// typeBits converts an ftype3.
func typeBits(t nfs3.FileType) fs.FileMode {
	switch t {
	case nfs3.TypeReg:
		return 0
	case nfs3.TypeDir:
		return fs.ModeDir
	case nfs3.TypeLnk:
		return fs.ModeSymlink
	case nfs3.TypeFIFO:
		return fs.ModeNamedPipe
	case nfs3.TypeSock:
		return fs.ModeSocket
	case nfs3.TypeChr:
		return fs.ModeDevice | fs.ModeCharDevice
	case nfs3.TypeBlk:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// program is one program on one connection.
type program struct {
	caller     rpc.Caller
	prog, vers uint32
	cred       xdr.Auth
}

// do sends a call and decodes its results with parse. A reply header with a status other than SUCCESS
// is an error. call.MaxResults limits the reply.
func (r *program) do(ctx context.Context, call *rpc.Call, parse func(d *xdr.Decoder, reply *rpc.Reply) error) error {
	x := exchanges.Get().(*exchange)
	x.call = *call // which stays with its caller: only the copy escapes
	x.call.Prog, x.call.Vers, x.call.Cred = r.prog, r.vers, r.cred
	x.call.Repeatable = true // NFS servers keep the replies to changes; all else may run twice, leases too
	if err := r.caller.Do(ctx, &x.call, &x.reply); err != nil {
		return err // and x is left to the connection, which may still hold it
	}
	defer func() {
		x.reply.Release()
		*x = exchange{}
		exchanges.Put(x)
	}()
	if err := x.reply.Header.Err(); err != nil {
		return err
	}
	if parse == nil {
		return nil
	}
	x.results = xdr.NewDecoder(x.reply.Results)
	if err := parse(&x.results, &x.reply); err != nil {
		return err
	}
	if err := x.results.Err(); err != nil {
		return fmt.Errorf("the server's answer cannot be decoded: %w", err)
	}
	return nil
}

// exchange is what of a call and its reply others see. To make it anew took 1.1 of 6.0 us of the client's processor for GETATTR.
type exchange struct {
	call    rpc.Call
	reply   rpc.Reply
	results xdr.Decoder
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// null calls procedure 0, which every program answers (RFC 5531 Section 12.1).
func (r *program) null(ctx context.Context) error {
	return r.do(ctx, &rpc.Call{}, nil)
}
