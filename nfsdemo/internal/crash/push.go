package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// pusher writes through a push log (docs/pushfile.md), under leases that it keeps or returns at
// random. It also handles the backward direction, in which the server recalls leases.
type pusher struct {
	worker uint16
	rpc    *lasting

	s      *push.Session // nil: none
	secret push.Secret
	opened int // logs opened; after a failure the next one has another name

	mu     sync.Mutex // held while a record is in flight, so that no recall is answered meanwhile
	leases map[string]held
}

// ring is the capacity of a log in octets: only a few records, so that it wraps often.
const ring = 64 << 10

// held is a lease and the connection on which it was granted. A later connection may be to a
// restarted server, which no longer knows the lease.
type held struct {
	id   uint64
	dial int
}

// errFatal is an answer after which it is useless to push again.
var errFatal = errors.New("what was acknowledged cannot be written")

// push appends the data of o, again and again until they are acknowledged. With keep it keeps the
// lease.
func (p *pusher) push(ctx context.Context, o *Op, keep bool) error {
	for {
		err := p.try(ctx, o, keep)
		if err == nil || errors.Is(err, errFatal) {
			return err
		}
		p.drop()
		if perr := pause(ctx); perr != nil {
			return fmt.Errorf("%w: %w", perr, err)
		}
	}
}

// drop ends the session, and with it its leases.
func (p *pusher) drop() {
	if p.s != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the server will notice
		_ = p.s.Close(ctx)
		p.s = nil
	}
	p.mu.Lock()
	p.leases = nil
	p.mu.Unlock()
}

func (p *pusher) try(ctx context.Context, o *Op, keep bool) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.leases[string(o.File)]
	if !ok || l.dial != p.rpc.dials() {
		id, err := p.lease(ctx, o)
		if err != nil {
			return err
		}
		l = held{id, p.rpc.dials()}
		if p.leases == nil {
			p.leases = make(map[string]held)
		}
		p.leases[string(o.File)] = l
	}
	r := pushfile.Record{Lease: l.id, Offset: uint64(o.First * Piece), Data: o.data(p.worker)}
	res, err := p.s.Append(ctx, r.Append(nil))
	switch {
	case err != nil:
		return err
	case res.Level != commitlog.Persistent:
		return fmt.Errorf("%w: the log gives %v", errFatal, res.Level)
	case keep:
		return nil
	}
	delete(p.leases, string(o.File))
	return p.giveBack(ctx, l.id)
}

// open opens the log, if it is not open.
func (p *pusher) open(ctx context.Context) error {
	if p.s != nil && p.s.Err() == nil {
		return nil
	}
	if p.s != nil {
		p.drop()
	}
	if p.secret == (push.Secret{}) {
		p.secret = push.NewSecret()
	}
	s, err := push.Dial(ctx, p.rpc.r, fmt.Sprintf("w%d.%d", p.worker, p.opened), &push.Config{
		Secret: p.secret, Cred: p.rpc.cred,
		Capacity: ring, MaxRecord: ring / 4, MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond,
	})
	if err != nil {
		p.secret = push.Secret{}
		p.opened++
		return err
	}
	p.s = s
	return nil
}

// lease opens the file of o.
func (p *pusher) lease(ctx context.Context, o *Op) (uint64, error) {
	args := pushfile.OpenArgs{Session: pushfile.Session(p.s.ID()), File: o.File, Octets: maxPieces * Piece}
	raw, err := p.call(ctx, pushfile.ProcOpen, args.Append(nil))
	if err != nil {
		return 0, err
	}
	var res pushfile.OpenRes
	d := xdr.NewDecoder(raw)
	res.Parse(&d)
	switch err := d.End(); {
	case err != nil:
		return 0, err
	case res.Status == pushfile.StatusOK:
		return res.Lease, nil
	case res.Status == pushfile.StatusStaleSession, res.Status == pushfile.StatusBusy:
		return 0, res.Status
	default:
		return 0, fmt.Errorf("%w: %w", errFatal, res.Status)
	}
}

// giveBack returns a lease. If the server does not know the lease, it has ended it already.
func (p *pusher) giveBack(ctx context.Context, id uint64) error {
	args := pushfile.LeaseArgs{Session: pushfile.Session(p.s.ID()), Lease: id}
	_, err := p.call(ctx, pushfile.ProcReturn, args.Append(nil))
	return err
}

func (p *pusher) call(ctx context.Context, proc uint32, args []byte) ([]byte, error) {
	return p.rpc.do(ctx, 0, pushfile.Program, &message{vers: pushfile.Version, proc: nfs3.Proc(proc), args: args})
}

// holds reports whether there is still a lease on the file.
func (p *pusher) holds(file []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.leases[string(file)]
	return ok && l.dial == p.rpc.dials() && p.s.Err() == nil
}

// ServeRPC implements rpc.Handler: it answers CB_RECALL.
func (p *pusher) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Prog != pushfile.CallbackProgram {
		resp.Stat = xdr.ProgUnavail
		return
	}
	if req.Proc == pushfile.ProcRecall {
		var args pushfile.RecallArgs
		d := xdr.NewDecoder(bytes.Clone(req.Args))
		args.Parse(&d)
		p.mu.Lock()
		for f, l := range p.leases {
			if l.id == args.Lease {
				delete(p.leases, f)
			}
		}
		p.mu.Unlock()
		resp.Results = xdr.AppendUint32(resp.Results, uint32(pushfile.StatusOK))
	}
}
