package nfsclient

import (
	"context"
	"errors"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Delays after an answer that says to try again.
const (
	pushFirst = 10 * time.Millisecond
	pushMost  = 2 * time.Second
)

// again repeats a call while the answer is that the session is over, or that others have to give the
// file back, for pushMost at most.
func (p *pusher) again(ctx context.Context, s *push.Session, call func(pushfile.Session) (pushfile.Status, error)) error {
	until := time.Now().Add(pushMost)
	for delay := pushFirst; ; delay *= 2 {
		st, err := call(pushfile.Session(s.ID()))
		switch {
		case err != nil || st == pushfile.StatusOK:
			return err
		case s.Err() != nil:
			return s.Err()
		case st != pushfile.StatusStaleSession && st != pushfile.StatusBusy || time.Until(until) < delay:
			return st
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// do calls a procedure of pushfile.
func (p *pusher) do(ctx context.Context, proc uint32, args []byte, parse func(*xdr.Decoder)) error {
	call := rpc.Call{Proc: proc, Args: args, MaxResults: maxPushResults}
	return p.rpc.do(ctx, &call, func(d *xdr.Decoder, _ *rpc.Reply) error {
		parse(d)
		return d.End()
	})
}

// maxPushResults limits the results of a call, in octets.
const maxPushResults = 512

// grant calls OPEN.
func (p *pusher) grant(ctx context.Context, s *push.Session, fh nfs3.FileHandle, octets uint64) (res pushfile.OpenRes, err error) {
	err = p.again(ctx, s, func(id pushfile.Session) (pushfile.Status, error) {
		a := pushfile.OpenArgs{Session: id, File: fh, Octets: octets}
		err := p.do(ctx, pushfile.ProcOpen, a.Append(nil), res.Parse)
		return res.Status, err
	})
	return res, err
}

// giveBack calls RETURN. If the server does not know the lease anymore, that is no error.
func (p *pusher) giveBack(ctx context.Context, s *push.Session, lease uint64) error {
	err := p.again(ctx, s, func(id pushfile.Session) (st pushfile.Status, err error) {
		a := pushfile.LeaseArgs{Session: id, Lease: lease}
		err = p.do(ctx, pushfile.ProcReturn, a.Append(nil), func(d *xdr.Decoder) { st = pushfile.Status(d.Uint32()) })
		return st, err
	})
	if errors.Is(err, pushfile.StatusUnknownLease) {
		return nil
	}
	return err
}

// status calls STATUS.
func (p *pusher) status(ctx context.Context, s *push.Session) (pushfile.State, error) {
	var res pushfile.StatusRes
	err := p.again(ctx, s, func(id pushfile.Session) (pushfile.Status, error) {
		a := pushfile.StatusArgs{Session: id}
		err := p.do(ctx, pushfile.ProcStatus, a.Append(nil), res.Parse)
		return res.Status, err
	})
	return res.State, err
}
