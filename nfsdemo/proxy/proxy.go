package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

const defaultDialTimeout = 10 * time.Second

// Server is a connection to the server: a *transport.Client or *transport.StreamClient.
type Server interface {
	rpc.Caller
	Done() <-chan struct{} // closed when it has ended
	Err() error            // why it has, nil if it has not
	Abort(err error)       // ends it
}

var _, _ Server = (*transport.Client)(nil), (*transport.StreamClient)(nil)

// Proxy passes the calls of clients on to a server. Set the fields, then call Serve or ServeStream for any number
// of listeners; do not change the fields afterwards. It is safe for concurrent use.
type Proxy struct {
	// Dial connects to the server for one client, when its first call comes. It must be set. back serves what the server
	// calls in return, for transport.Config.Backward, and passes it on to the client. When Dial fails,
	// the proxy itself answers the client for a while: NFSv3 calls with NFS3ERR_JUKEBOX, so that a client
	// that has mounted the server waits for it, and MNT with MNT3ERR_SERVERFAULT.
	Dial func(ctx context.Context, back rpc.Handler) (Server, error)
	// DialTimeout limits the time for Dial. If zero, 10 s; if negative, Serve returns an error.
	DialTimeout time.Duration
	// Check, if not nil, returns an error for a call that the client with this address must not make: the client's
	// connection ends then. It borrows the call.
	Check func(client net.Addr, call *xdr.CallHeader) error
	// Config is that of the clients' side. Its Binding holds for both. All credentials pass, and no call runs in the goroutine
	// that reads. If Limits.Conns is 0, there are half as many as usual beyond 2048, because each has a connection to the server.
	Config *transport.Config

	once   sync.Once
	cfg    transport.Config
	srv    transport.Server
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex     // no client comes after Close
	wg     sync.WaitGroup // of clients

	failed, slow atomic.Uint64
}

// Stats counts the clients of a Proxy, and their calls.
type Stats struct {
	rpc.Stats        // of the clients' side
	Failed    uint64 // clients for which the server could not be reached
	Slow      uint64 // those that ended because they, or the server, stopped inside a record or did not answer
}

// init prepares p at first use.
func (p *Proxy) init() *transport.Server {
	p.once.Do(func() {
		if p.Config != nil {
			p.cfg = *p.Config
		}
		c := &p.cfg
		c.AnyCred, c.Reading.HandlerLimit = true, -1
		if c.Binding == nil {
			c.Binding = chunks.NFS
		}
		if c.MaxPayload == 0 {
			c.MaxPayload = transport.DefaultMaxPayload
		}
		if c.Logger == nil {
			c.Logger = zap.NewNop()
		}
		if c.Limits.Conns == 0 {
			c.Limits.Conns = 2048 + int(cmp.Or(max(c.Limits.Memory, 0), transport.DefaultMemory)>>16)
		}
		p.srv.Config, p.srv.Each = c, p.each
		p.ctx, p.cancel = context.WithCancel(context.Background())
	})
	return &p.srv
}

// Serve takes l, and passes on what clients on RDMA call. It returns transport.ErrServerClosed after Shutdown or Close, or the
// error that ended accepting.
func (p *Proxy) Serve(l net.Listener) error { return p.serve(l, (*transport.Server).Serve) }

// ServeStream is Serve for clients on record-marked TCP.
func (p *Proxy) ServeStream(l net.Listener) error { return p.serve(l, (*transport.Server).ServeStream) }

func (p *Proxy) serve(l net.Listener, serve func(*transport.Server, net.Listener) error) error {
	if err := setting.Check(setting.Time("DialTimeout", p.DialTimeout)); err != nil {
		_ = l.Close() // it has accepted nobody
		return fmt.Errorf("proxy: %w", err)
	}
	return serve(p.init(), l)
}

// each is transport.Server.Each.
func (p *Proxy) each(net.Conn) transport.Served {
	c := &client{p: p, over: make(chan struct{}), pending: make(map[uint32]struct{})}
	c.ctx, c.leave = context.WithCancel(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil { // the server refuses it, and Close may wait no longer
		return transport.Served{Handler: c, Over: c.leave}
	}
	p.wg.Add(1)
	return transport.Served{Handler: c, Context: c.ctx, Over: func() {
		close(c.over)
		c.leave()
		p.wg.Done()
	}}
}

// Clients returns the clients that are connected now, in no order.
func (p *Proxy) Clients() []transport.ServedClient { return p.init().Clients() }

// RecheckTLS is that of [transport.Server].
func (p *Proxy) RecheckTLS() error { return p.init().RecheckTLS() }

// Shutdown stops listening, and returns when all calls are answered and the clients' connections closed, or ctx has ended.
// Close has to follow.
func (p *Proxy) Shutdown(ctx context.Context) error { return p.init().Shutdown(ctx) }

// Close stops listening, closes all connections, and returns when they have ended.
func (p *Proxy) Close() error {
	err := p.init().Close()
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	s := p.init().Stats()
	return Stats{Stats: s, Failed: p.failed.Load(), Slow: p.slow.Load() + s.SlowPeers}
}

// awayTime is how long a client whose server cannot be reached is answered before its connection ends. It
// connects again then, and so does the proxy to the server.
const awayTime = 10 * time.Second

// away answers a call instead of a server that cannot be reached. What it answers makes
// a client that has mounted the server wait, as it does for a server that does not answer, and one that
// mounts it fail with a reason:
//
//   - calls of NFSv3 get NFS3ERR_JUKEBOX, "try again later" (RFC 1813 Section 2.6);
//   - NULL gets SYSTEM_ERR, MNT gets MNT3ERR_SERVERFAULT, and the NULL of MOUNT succeeds;
//   - others cannot be answered like that: the connection ends.
//
// SYSTEM_ERR to other calls of NFS would be a lie with consequences: Linux makes EIO of it even for hard
// mounts, and programs lose what they wrote.
func (c *client) away(req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Prog == mount3.Program && req.Proc == 0: // so that the client asks, and gets an answer
	case req.Proc == 0:
		resp.Stat = xdr.SystemErr
	case req.Prog == nfs3.Program && req.Vers == nfs3.Version && req.Proc < nfs3.ProcCount:
		resp.Results = later(resp.Results, nfs3.Proc(req.Proc))
	case req.Prog == mount3.Program && req.Vers == mount3.Version && mount3.Proc(req.Proc) == mount3.ProcMnt:
		resp.Results = xdr.Encode(resp.Results, &mount3.MountRes{Status: mount3.ErrServerFault})
	case req.Prog == mount3.Program:
		resp.Stat = xdr.SystemErr
	default:
		c.hangUp(resp)
	}
}

// absent are how many optional attributes the results of a procedure have when it fails; all are left out
// (RFC 1813 Section 3.3).
var absent = [nfs3.ProcCount]int{
	nfs3.ProcGetAttr: 0, nfs3.ProcLookup: 1, nfs3.ProcAccess: 1, nfs3.ProcReadLink: 1, nfs3.ProcRead: 1,
	nfs3.ProcReadDir: 1, nfs3.ProcReadDirPlus: 1, nfs3.ProcFSStat: 1, nfs3.ProcFSInfo: 1, nfs3.ProcPathConf: 1,
	nfs3.ProcSetAttr: 2, nfs3.ProcWrite: 2, nfs3.ProcCreate: 2, nfs3.ProcMkdir: 2, nfs3.ProcSymlink: 2,
	nfs3.ProcMknod: 2, nfs3.ProcRemove: 2, nfs3.ProcRmdir: 2, nfs3.ProcCommit: 2, nfs3.ProcLink: 3, nfs3.ProcRename: 4,
}

// later appends the results of a call that the client shall repeat.
func later(b []byte, p nfs3.Proc) []byte {
	b = xdr.AppendUint32(b, uint32(nfs3.ErrJukebox))
	for range absent[p] {
		b = xdr.AppendBool(b, false)
	}
	return b
}
