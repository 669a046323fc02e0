package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// errReply: no server of this version gives such an answer.
var errReply = errors.New("push: the server's reply cannot be decoded")

// maxResults limits the results of a call, in octets.
const maxResults = 512

// call makes one call and reads its results with parse.
func (s *Session) call(ctx context.Context, proc uint32, args []byte, parse func(*xdr.Decoder)) error {
	return call(ctx, s.rpc, s.cfg.Cred, proc, args, maxResults, parse)
}

func call(ctx context.Context, caller rpc.Caller, cred xdr.Auth, proc uint32, args []byte, most int, parse func(*xdr.Decoder)) error {
	c := rpc.Call{Prog: Program, Vers: Version, Proc: proc, Cred: cred, Args: args, MaxResults: most}
	return rendezvous.Call(ctx, caller, &c, ErrNoProgram, errReply, parse)
}

// callOpen calls OPEN.
func (s *Session) callOpen(ctx context.Context) (*opened, error) {
	a := openArgs{
		Name: s.name, Secret: s.cfg.Secret, Instance: s.instance, Resume: s.resume,
		Capacity: s.cfg.Capacity, Native: s.cfg.Best == Native && s.native.wanted(time.Now()),
	}
	var res openRes
	if err := s.call(ctx, procOpen, a.append(nil), res.parse); err != nil {
		return nil, err
	}
	if res.Status != StatusOK {
		return nil, res.Status
	}
	if a.Native && res.Opened.Commit == nil {
		s.native.addr = ""
	}
	return &res.Opened, nil
}

// bye calls CLOSE. If the call is lost, that does no harm.
func (s *Session) bye(ctx context.Context, k key) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
	defer cancel()
	_ = s.call(ctx, procClose, xdr.AppendFixedOpaque(nil, k[:]), func(d *xdr.Decoder) { d.Uint32() })
}

// openAppend begins to append by call.
func (s *Session) openAppend(o *opened) (lostFunc, error) {
	c := &caller{s: s, session: o.Session, level: level(o.Answer.Persistent)}
	s.now(Append, o.Session, nil, &o.Answer)
	own, cancel := context.WithCancelCause(s.ctx)
	ctx, err := s.p.OpenCarrier(own, c, &o.Answer)
	if err != nil {
		cancel(err)
		return nil, err
	}
	return func() (err error) {
		defer func() { cancel(err) }()
		if s.native.addr != "" {
			return s.better(ctx)
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, nil
}

// caller carries records by APPEND. Whether its errors are final, the next OPEN will tell.
type caller struct {
	s       *Session
	session key
	level   commitlog.Level // with which the session was opened
	args    []byte
}

var _ commitlog.Carrier = (*caller)(nil)

// Carry implements commitlog.Carrier.
func (c *caller) Carry(ctx context.Context, seq uint64, payloads [][]byte) (head uint64, err error) {
	for len(payloads) > 0 {
		n := c.some(payloads)
		a := appendArgs{Session: c.session, Seq: seq, Records: payloads[:n]}
		c.args = a.append(c.args[:0])
		res, err := c.do(ctx, procAppend, c.args)
		if err != nil {
			return 0, err
		}
		if res.Next < seq+uint64(n) || res.Level != c.level {
			return 0, fmt.Errorf("%w: next record %d after %d, level %v in a session of %v", errReply, res.Next, seq+uint64(n)-1, res.Level, c.level)
		}
		head, seq, payloads = res.Head, seq+uint64(n), payloads[n:]
	}
	return head, nil
}

// maxCall limits the octets of all records of one APPEND, except for a single larger record.
const maxCall = 512 << 10

// some returns how many records go into one call, at least one.
func (c *caller) some(payloads [][]byte) int {
	octets := 0
	for i, p := range payloads {
		octets += len(p) + 8
		if i == maxRecords || i > 0 && octets > maxCall {
			return i
		}
	}
	return len(payloads)
}

// Head implements commitlog.Carrier.
func (c *caller) Head(ctx context.Context) (uint64, error) {
	res, err := c.do(ctx, procStatus, xdr.AppendFixedOpaque(nil, c.session[:]))
	return res.Head, err
}

// do makes a call, and repeats it while the server is busy.
func (c *caller) do(ctx context.Context, proc uint32, args []byte) (res stateRes, err error) {
	err = rendezvous.Keep(ctx, c.s.cfg.MinDelay, c.s.cfg.MaxDelay, func() error {
		err := c.s.call(ctx, proc, args, res.parse)
		if err == nil && res.Status != StatusOK {
			return res.Status
		}
		return err
	}, notBusy)
	return res, err
}

func notBusy(err error) bool { return !errors.Is(err, StatusBusy) }
