package probe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
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
	// Capture, if not nil, records all connections; with TriesOnly not those that show whether the peer is alive.
	Capture   *capture.Writer
	TriesOnly bool

	// Octets is how many octets of each connection, in either direction, a Try keeps. If zero, none.
	Octets int
	// Handle is an NFSv3 file handle of a file with 5 octets or more that anybody may read. If there is one, the file is
	// read; otherwise nothing but NULL is called.
	Handle []byte
	// Clients is how many connections load/clients has open at the same time. If zero, 1,000.
	Clients int
	// Usage, if not nil, says what the peer uses, before the first case and after the last.
	Usage func() (Usage, error)
	// Restart, if not nil, starts a peer again that is gone. Then the cases go on.
	Restart func(context.Context) error

	target cases.Target
	habits map[string]bool // what it does wrong without any cause, and so is a fault of no other case
	before Usage
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

// table returns the selected cases, and always: the usual call.
func (p *Prober) table(always bool) []cases.Case {
	t := p.target
	if t == (cases.Target{}) {
		t = cases.Target{Prog: p.Program, Vers: p.Version, Inline: rpcrdma.DefaultInline, Grant: 1, Handle: string(p.Handle)}
	}
	var list []cases.Case
	for _, c := range cases.Table(t) {
		if p.selected(c.Name) || always && c.Name == cases.UsualCall {
			list = append(list, c)
		}
	}
	return list
}

// selected reports whether a case is to be played.
func (p *Prober) selected(name string) bool {
	return (p.Only == nil || p.Only.MatchString(name)) && (p.Skip == nil || !p.Skip.MatchString(name))
}

// Cases returns the selected cases, in order, without contacting the peer.
func (p *Prober) Cases() []Case {
	var list []Case
	for _, c := range p.table(false) {
		list = append(list, describe(&c))
	}
	for _, x := range p.last() {
		list = append(list, x.Case)
	}
	return list
}

// last returns the selected cases that are played after those of octets.
func (p *Prober) last() []extra {
	list := p.extras()
	if x := p.resources(); p.Usage != nil && p.selected(x.Name) {
		list = append(list, x)
	}
	return list
}

// Run plays the cases, calls report after each, and returns how many failed. The error wraps ErrUnreachable,
// ErrGone, or that of ctx; wrong answers are not errors.
func (p *Prober) Run(ctx context.Context, report func(*Result)) (failed int, err error) {
	if p.Program == 0 {
		p.Program, p.Version = DefaultProgram, DefaultVersion
	}
	p.habits = nil
	steady, err := p.greet(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { steady.close() }()
	if p.Usage != nil {
		if p.before, err = p.Usage(); err != nil {
			return 0, err
		}
	}
	list := p.last()
	for _, c := range p.table(true) {
		list = slices.Insert(list, len(list)-len(p.last()), extra{describe(&c), func(ctx context.Context, r *Result) (func(), error) {
			return p.run(ctx, &c, r)
		}})
	}
	for _, c := range list {
		r, start := &Result{Case: c.Case}, time.Now()
		release, err := c.play(ctx, r)
		if err == nil && ctx.Err() == nil {
			steady, err = p.survivors(ctx, r, steady)
		}
		release()
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		r.Seconds = time.Since(start).Seconds()
		if r.sum(); r.Verdict == cases.Fails.String() {
			failed++
		} else if !p.selected(c.Name) {
			continue // the usual call is always made, for the habits
		}
		report(r)
		if err != nil && p.Restart != nil {
			steady.close()
			if err = p.Restart(ctx); err == nil {
				steady, err = p.greet(ctx)
			}
		}
		if err != nil {
			return failed, fmt.Errorf("%w: after %s %w", ErrGone, c.Name, err)
		}
	}
	return failed, nil
}

// survivors checks whether the peer is alive after a case.
func (p *Prober) survivors(ctx context.Context, r *Result, steady *steady) (*steady, error) {
	if err := steady.ping(ctx); err != nil {
		r.fail("a connection that had nothing to do with it " + err.Error())
		steady.close()
		return p.again(ctx, r)
	}
	if err := p.alive(ctx); err != nil {
		r.fail("a new connection is not served as it should: " + err.Error())
		return steady, err
	}
	return steady, nil
}

// run plays the tries of c. Those that hold their connections do so until release is called. An error says that the
// peer does not accept connections any more.
func (p *Prober) run(ctx context.Context, c *cases.Case, r *Result) (release func(), err error) {
	wires, err := p.tries(ctx, c)
	for i, x := range wires {
		if t := &c.Tries[i]; x != nil {
			f := x.finding()
			said, worst := x.faults()
			if worst > f.Verdict && f.Verdict == cases.OK {
				f.Verdict, f.Why = worst, "the judge finds it at fault"
			}
			r.Tries = append(r.Tries, Try{
				Name: t.Name, Answer: f.Kind.String(), Did: f.Text, Verdict: f.Verdict.String(), Why: f.Why, Judged: said,
				Sent: x.judged.said[0], Got: x.judged.said[1],
			})
		}
	}
	if err != nil {
		r.fail("it does not accept connections any more: " + err.Error())
	} else if c.Name == cases.UsualCall {
		p.habits = wires[0].wrong
	}
	return func() {
		for _, x := range wires {
			x.close()
		}
	}, err
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
