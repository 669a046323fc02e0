package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
	"github.com/stag-rdma/stag/rpcrdma"
)

// nextXID returns the XID of the next call that checks whether the peer is alive. The XIDs of the cases
// begin elsewhere.
func (p *Prober) nextXID() uint32 {
	p.xid++
	return p.xid
}

// greet gets to know the peer, and makes the connection that stays open.
func (p *Prober) greet(ctx context.Context) (*steady, error) {
	p.xid = rand.Uint32() // a duplicate request cache may know the calls of another run
	p.target = cases.Target{Prog: p.Program, Vers: p.Version, Inline: rpcrdma.DefaultInline, Grant: 1, XID: p.xid + 1<<20, Handle: string(p.Handle)}
	s, err := p.keep(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	seen := &s.x.w.Seen
	own := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}
	peer, ok := rpcrdma.ParsePrivateData(seen.Reply.PrivateData)
	if ok {
		p.target.Inline, _ = own.Inline(peer)
		p.target.Receives = peer.RecvSize
	}
	p.target.Grant = int(min(max(seen.Answers[0].Credit, 1), 1024))
	return s, nil
}

// call makes a NULL call on a new connection, which stays open.
func (p *Prober) call(ctx context.Context) (*wire, error) {
	t := cases.Alive(p.target, p.nextXID())
	x, err := p.play(ctx, &t)
	if err != nil {
		return nil, err
	}
	// An answer with other faults will do: the case that makes this call has them as its own.
	if f := x.finding(); f.Kind != cases.KindAnswered {
		x.nc.Close()
		return nil, fmt.Errorf("a NULL call of program %d version %d: %s", p.target.Prog, p.target.Vers, join(f.Text, f.Why))
	}
	return x, nil
}

// alive makes a NULL call on a new connection.
func (p *Prober) alive(ctx context.Context) error {
	x, err := p.call(ctx)
	if err != nil {
		return err
	}
	x.nc.Close()
	if b := x.w.Seen.Breaches; len(b) > 0 {
		return errors.New(strings.Join(b, "; "))
	}
	if said, worst := x.faults(); worst == cases.Fails {
		return errors.New("it breaks " + strings.Join(said, "; "))
	}
	return nil
}

// steady is a connection that has nothing to do with the cases.
type steady struct {
	p   *Prober
	x   *wire
	msn uint32 // of the last call
}

func (p *Prober) keep(ctx context.Context) (*steady, error) {
	x, err := p.call(ctx)
	if err != nil {
		return nil, err
	}
	return &steady{p: p, x: x, msn: 1}, nil
}

// ping makes a NULL call.
func (s *steady) ping(ctx context.Context) error {
	xid := s.p.nextXID()
	cancel := context.AfterFunc(ctx, func() { s.x.nc.Close() })
	defer cancel()
	s.x.stop = time.Now().Add(s.p.timeout())
	s.msn++
	seen := &s.x.w.Seen
	seen.Answers = seen.Answers[:0]
	s.x.try = &cases.Try{Subjects: []uint32{xid}, Steps: []cases.Step{{}}}
	s.x.write(s.x.frame(cases.NullCall(s.p.target, xid, s.msn)), 0, 0)
	s.x.until(func() bool { return seen.Answer(xid) != nil })
	a := seen.Answer(xid)
	switch {
	case a == nil && seen.Term != nil:
		return fmt.Errorf("got a Terminate: %v", seen.Term)
	case a == nil && seen.Ended:
		return errors.New("was ended")
	case a == nil:
		return errors.New("is not served any more")
	case a.Kind != cases.KindAnswered:
		return errors.New("got another answer: " + a.Text)
	}
	return nil
}

func (s *steady) close() {
	if s != nil && s.x != nil {
		s.x.nc.Close()
	}
}
