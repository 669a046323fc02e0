package probe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/probe/internal/cases"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Defaults of a Prober.
const (
	DefaultProgram = 100003 // NFS
	DefaultVersion = 3
	DefaultTimeout = 5 * time.Second
	DefaultQuiet   = 150 * time.Millisecond
)

// Prober plays the cases to one peer. Its methods must be called from one goroutine.
type Prober struct {
	Address string // host:port of TCP

	// Program and Version are those whose procedure NULL is called. If zero, NFS and 3.
	Program, Version uint32
	// Timeout bounds each try: after it the answer is silence. If zero, 5 s.
	Timeout time.Duration
	// Quiet is how long to wait for an answer where none should come: to a message that must be dropped, or
	// to half a message. If zero, 150 ms.
	Quiet time.Duration
	// Only selects the cases whose names match, and Skip leaves some of them out. If nil, all are selected,
	// and none is left out.
	Only, Skip *regexp.Regexp
	// Capture, if not nil, records all connections.
	Capture *capture.Writer

	target cases.Target
	xid    uint32
}

// ErrUnreachable is wrapped by the error of a Run whose peer did not answer a plain NULL call before the
// cases began.
var ErrUnreachable = errors.New("no RPC-over-RDMA server answers")

// ErrGone is wrapped by the error of a Run that ended early: the peer no longer accepts connections or
// answers NULL calls.
var ErrGone = errors.New("the peer is gone")

func (p *Prober) timeout() time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return DefaultTimeout
}

func (p *Prober) quiet() time.Duration {
	if p.Quiet > 0 {
		return p.Quiet
	}
	return DefaultQuiet
}

// table returns the selected cases.
func (p *Prober) table() []cases.Case {
	t := p.target
	if t == (cases.Target{}) {
		t = cases.Target{Prog: p.Program, Vers: p.Version, Inline: rpcrdma.DefaultInline, Grant: 1}
	}
	var list []cases.Case
	for _, c := range cases.Table(t) {
		if (p.Only == nil || p.Only.MatchString(c.Name)) && (p.Skip == nil || !p.Skip.MatchString(c.Name)) {
			list = append(list, c)
		}
	}
	return list
}

// Cases returns the selected cases, in order, without contacting the peer.
func (p *Prober) Cases() []Case {
	var list []Case
	for _, c := range p.table() {
		list = append(list, describe(&c))
	}
	return list
}

// Run plays the cases, calls report after each, and returns how many failed. The error wraps ErrUnreachable,
// ErrGone, or that of ctx; wrong answers are not errors.
func (p *Prober) Run(ctx context.Context, report func(*Result)) (failed int, err error) {
	if p.Program == 0 {
		p.Program, p.Version = DefaultProgram, DefaultVersion
	}
	steady, err := p.greet(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { steady.close() }()
	for _, c := range p.table() {
		r := &Result{Case: describe(&c)}
		steady, err = p.run(ctx, &c, r, steady)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if r.sum(); r.Verdict == cases.Fails.String() {
			failed++
		}
		report(r)
		if err != nil {
			return failed, fmt.Errorf("%w: after %s %w", ErrGone, c.Name, err)
		}
	}
	return failed, nil
}

// run plays the tries of c, and checks whether the peer is alive afterwards.
func (p *Prober) run(ctx context.Context, c *cases.Case, r *Result, steady *steady) (*steady, error) {
	wires, err := p.tries(ctx, c)
	defer func() {
		for _, x := range wires {
			x.close()
		}
	}()
	for i, x := range wires {
		if t := &c.Tries[i]; x != nil {
			f := t.Judge(&x.w.Seen)
			r.Tries = append(r.Tries, Try{Name: t.Name, Answer: f.Kind.String(), Did: f.Text, Verdict: f.Verdict.String(), Why: f.Why})
		}
	}
	if err != nil {
		r.fail("it does not accept connections any more: " + err.Error())
		return steady, err
	}
	if err := steady.ping(ctx); err != nil {
		r.fail("a connection that had nothing to do with it " + err.Error())
		steady.close()
		return p.again(ctx, r)
	}
	if err := p.alive(ctx); err != nil {
		r.fail("a new connection is not served: " + err.Error())
		return steady, err
	}
	return steady, nil
}

// tries plays the tries that hold their connections at the same time, and the others in turn. After an error
// there may be fewer connections than tries.
func (p *Prober) tries(ctx context.Context, c *cases.Case) ([]*wire, error) {
	wires, errs := make([]*wire, len(c.Tries)), make([]error, len(c.Tries))
	var held sync.WaitGroup
	for i := range c.Tries {
		t := &c.Tries[i]
		play := func() { wires[i], errs[i] = p.play(ctx, t) }
		if t.Hold {
			held.Go(play)
			continue
		}
		if play(); errs[i] != nil {
			break
		}
		wires[i].close()
	}
	held.Wait()
	return wires, errors.Join(errs...)
}

// again makes another steady connection, since the last one is lost.
func (p *Prober) again(ctx context.Context, r *Result) (*steady, error) {
	s, err := p.keep(ctx)
	if err != nil {
		r.fail("a new connection is not served: " + err.Error())
		return &steady{}, err
	}
	return s, nil
}
