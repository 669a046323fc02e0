package crash

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// lasting is a Caller over RPC-over-RDMA that keeps the XIDs of its calls as long as its process
// lives, but not longer.
type lasting struct {
	r    rpc.Caller
	send func(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error
	cred xdr.Auth
	made atomic.Int64
	peer atomic.Value // string: the life of the server
}

// NewRDMA returns a caller for a worker over NFS/RDMA. Workers that run one after the other may
// be the same machine: a server divides its cache among the machines that it has seen, and with
// hundreds of them a share would be smaller than what workers send again.
func NewRDMA(addr Addr, worker, machine uint16) (Caller, error) {
	l := new(lasting)
	l.init(worker)
	l.cred = cred(machine)
	r, err := redial.New(l.redial(addr))
	if err != nil {
		return nil, err
	}
	l.r, l.send = r, r.Do
	return l, nil
}

func (l *lasting) init(worker uint16) {
	l.cred = cred(worker)
}

// redial returns the configuration for making connections.
func (l *lasting) redial(addr Addr) *redial.Config {
	return &redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			conn, life, err := addr.dial(ctx, "RDMA")
			if err != nil {
				return nil, err
			}
			l.peer.Store(life)
			return transport.NewClient(ctx, conn, nil)
		},
		MinDelay: 2 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Transmissions: -1, Silence: answerTime,
		Trace: redial.Trace{Connected: func(n int) { l.made.Store(int64(n)) }},
	}
}

func (l *lasting) dials() int  { return int(l.made.Load()) }
func (l *lasting) names() bool { return false }

func (l *lasting) life() string {
	life, _ := l.peer.Load().(string)
	return life
}

// Close implements Caller.
func (l *lasting) Close() error { return l.r.Close() }

// do implements Caller. It inserts placed data where they belong in the results.
func (l *lasting) do(ctx context.Context, _, prog uint32, m *message) ([]byte, error) {
	call := rpc.Call{
		Prog: prog, Vers: m.vers, Proc: uint32(m.proc), Cred: l.cred,
		Args: m.args, Item: m.item, ItemPos: len(m.args), MaxResults: 1024, Repeatable: true,
	}
	if m.item == nil {
		call.ItemPos = 0
	}
	if m.sink > 0 {
		call.Sink = make([]byte, m.sink)
	}
	if m.vers == 0 {
		call.Vers = nfs3.Version
	}
	var reply rpc.Reply
	if err := l.send(ctx, &call, &reply); err != nil {
		return nil, err
	}
	defer reply.Release()
	if err := reply.Header.Err(); err != nil {
		return nil, &refusedError{err}
	}
	raw := append([]byte(nil), reply.Results...)
	return xdr.AppendPad(append(raw, reply.Item...), len(reply.Item)), nil
}
