package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// A Trap is a hostile server: it plays one case after the other to a client. Behind it is a good server, so that any
// client finds what it looks for, but each case changes what the server says.
type Trap struct {
	Server string // host:port of the good server

	// Timeout bounds a run of the client, and the wait for one that comes by itself. If zero, 30 s.
	Timeout time.Duration
	// Only selects the cases whose names match, and Skip leaves some of them out.
	Only, Skip *regexp.Regexp
	// Client runs the client against an address once. Nil: clients come by themselves, one for each case.
	Client func(ctx context.Context, addr string) ClientRun
	// Octets is how many octets of each connection, in either direction, a Try keeps. If zero, none.
	Octets int
	// Capture, if not nil, records all connections to clients.
	Capture *capture.Writer

	mu     sync.Mutex
	twist  *twist
	relays []*relayed
	come   chan struct{} // a connection came
}

// ClientRun is how a run of a client ended.
type ClientRun struct {
	Did     string // in words: "exit status 1"
	OK      bool   // it got what it wanted
	Crashed bool   // by a signal, a panic
	Hung    bool   // it had to be stopped
}

// relayed is one connection of a client.
type relayed struct {
	relay *relay
	heard *judged
	done  chan struct{}
}

// DefaultClientTimeout is that of a Trap.
const DefaultClientTimeout = 30 * time.Second

// ErrClient is wrapped by the error of a Run whose client does not get along with the good server either.
var ErrClient = errors.New("the client fails with a good server")

func (p *Trap) timeout() time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return DefaultClientTimeout
}

// table returns the selected cases.
func (p *Trap) table() (list []twist) {
	for _, tw := range twists() {
		name := trapCase(&tw).Name
		if (tw.Reply != nil || tw.Out != nil) && (p.Only == nil || p.Only.MatchString(name)) && (p.Skip == nil || !p.Skip.MatchString(name)) {
			list = append(list, tw)
		}
	}
	return list
}

// trapCase describes a case.
func trapCase(tw *twist) Case {
	c := Case{Name: "client/" + tw.Name, Rule: "docs/probe.md", Sends: "a server that " + tw.Does, Wants: "no crash, an end in time, nothing wrong sent"}
	if r, ok := judge.Find(tw.Rule); ok {
		c.Rule = r.Source
		if fatal(tw) {
			c.Wants = "an error, in time, and nothing wrong sent"
		}
	}
	return c
}

// fatal reports whether a client must not get what it wants from such a server.
func fatal(tw *twist) bool {
	r, ok := judge.Find(tw.Rule)
	return ok && r.Severity == judge.Error && (r.Layer() == "DDP" || r.Layer() == "RDMAP" || tw.Rule == "MPA-030" || tw.Rule == "MPA-003") &&
		tw.Rule != "RDMAP-052" && tw.Rule != "RDMAP-060" // what a Terminate says changes nothing
}

// Cases returns the selected cases, in order.
func (p *Trap) Cases() (list []Case) {
	for _, tw := range p.table() {
		list = append(list, trapCase(&tw))
	}
	return list
}

// Run plays the cases to the clients that connect to l, which it closes in the end. It calls report after each case and
// returns how many failed. The error wraps [ErrClient], or that of ctx.
func (p *Trap) Run(ctx context.Context, l net.Listener, report func(*Result)) (failed int, err error) {
	p.come = make(chan struct{}, 1)
	var all sync.WaitGroup
	all.Go(func() { p.accept(ctx, l, &all) })
	defer func() {
		l.Close()
		p.hangUp()
		all.Wait()
	}()
	if err := p.control(ctx, l); err != nil {
		return 0, err
	}
	for _, tw := range p.table() {
		r, start := &Result{Case: trapCase(&tw)}, time.Now()
		p.play(ctx, l, &tw, r)
		r.Seconds = time.Since(start).Seconds()
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if r.sum(); r.Verdict == cases.Fails.String() {
			failed++
		}
		report(r)
	}
	return failed, p.control(ctx, l)
}

// control runs the client against the good server.
func (p *Trap) control(ctx context.Context, l net.Listener) error {
	if p.Client == nil {
		return nil
	}
	p.set(nil)
	run := p.run(ctx, l)
	p.hangUp()
	if !run.OK {
		return fmt.Errorf("%w: %s", ErrClient, run.Did)
	}
	return nil
}

// run runs the client once.
func (p *Trap) run(ctx context.Context, l net.Listener) ClientRun {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	return p.Client(ctx, l.Addr().String())
}

// set makes the server hostile in another way, nil: good.
func (p *Trap) set(tw *twist) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.twist, p.relays = tw, nil
	select {
	case <-p.come:
	default:
	}
}

// hangUp ends all connections, and returns them.
func (p *Trap) hangUp() []*relayed {
	p.mu.Lock()
	all := p.relays
	p.mu.Unlock()
	for _, c := range all {
		c.relay.Client.Close()
		c.relay.Server.Close()
		<-c.done
	}
	return all
}

// accept relays connections until l is closed.
func (p *Trap) accept(ctx context.Context, l net.Listener, all *sync.WaitGroup) {
	_ = accept.Serve(ctx, l, func(nc net.Conn) { // until l is closed
		server, err := (&net.Dialer{Timeout: p.timeout()}).DialContext(ctx, "tcp", p.Server)
		if err != nil {
			nc.Close()
			return
		}
		h := hear(p.Capture.TapServer(nc), decode.FromOpener)
		h.keep = p.Octets
		p.mu.Lock()
		c := &relayed{&relay{twist: p.twist, Client: h, Server: server}, h, make(chan struct{})}
		p.relays = append(p.relays, c)
		p.mu.Unlock()
		select {
		case p.come <- struct{}{}:
		default:
		}
		all.Go(func() { defer close(c.done); c.relay.Run() })
	})
}

// wait waits for a client that comes by itself, until its connection has ended.
func (p *Trap) wait(ctx context.Context) ClientRun {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	select {
	case <-p.come:
	case <-ctx.Done():
		return ClientRun{Did: "no connection"}
	}
	p.mu.Lock()
	c := p.relays[0]
	p.mu.Unlock()
	select {
	case <-c.done:
		return ClientRun{Did: "the connection ended"}
	case <-ctx.Done():
		return ClientRun{Did: "the connection stayed open"}
	}
}

// play plays one case.
func (p *Trap) play(ctx context.Context, l net.Listener, tw *twist, r *Result) {
	p.set(tw)
	var run ClientRun
	if p.Client != nil {
		run = p.run(ctx, l)
	} else {
		run = p.wait(ctx)
	}
	changed, worst := false, cases.OK
	t := Try{Answer: run.Did, Did: run.Did}
	for _, c := range p.hangUp() {
		changed = changed || c.relay.Changed()
		t.Sent, t.Got = c.heard.said[0], c.heard.said[1]
		said, w := sentence(c.heard.faults(), func(*judge.Violation) bool { return false })
		worst = max(worst, w)
		for _, s := range said {
			if len(t.Judged) < 8 && !slices.Contains(t.Judged, s) {
				t.Judged = append(t.Judged, s)
			}
		}
	}
	switch {
	case run.Crashed:
		worst, t.Why = cases.Fails, "it crashed"
	case run.Hung:
		worst, t.Why = cases.Fails, fmt.Sprintf("it had not ended after %v", p.timeout())
	case run.OK && changed && fatal(tw):
		worst, t.Why = cases.Fails, "it got what it wanted from a server that it must refuse"
	case worst > cases.OK:
		t.Why = "the judge finds it at fault"
	case !changed:
		t.Answer = "not reached"
	}
	t.Verdict = worst.String()
	r.Tries = append(r.Tries, t)
}
