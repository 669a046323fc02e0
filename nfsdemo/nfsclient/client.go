package nfsclient

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
	if err := c.start(ctx); err != nil {
		caller.Close() //nolint:errcheck // the first error counts
		return nil, pathErr("mount", export, err)
	}
	return c, nil
}

// start asks what the server can do.
func (c *Client) start(ctx context.Context) error {
	args := nfs3.FSInfoArgs{Handle: c.root.FH}
	if err := c.call(ctx, nfs3.ProcFSInfo, &args, &c.info); err != nil {
		return err
	}
	block := func(most, pref uint32) *freeList {
		n := min(uint32(c.cfg.MaxBlock), most, cmp.Or(pref, most))
		return &freeList{int(cmp.Or(n, 4096)), make(chan []byte, 2*c.cfg.InFlight)} // 4 KiB if the server's limits are useless
	}
	c.reads, c.writes = block(c.info.RTMax, c.info.RTPref), block(c.info.WTMax, c.info.WTPref)
	return c.Refresh(ctx, c.root)
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
		if err := sleep(ctx, delay); err != nil {
			return err
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

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
