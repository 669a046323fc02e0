// Package probe sends bad input, and valid input of unusual kinds, to a live server that speaks
// RPC-over-RDMA on iWARP, and reports how the server did.
//
//	p := probe.Prober{Address: "192.0.2.1:20049"}
//	err := p.Run(ctx, func(r *probe.Result) { fmt.Println(r.Case, r.Verdict) })
//
// A case is one thing that the documents forbid, allow or leave open: a startup frame with another key, an
// FPDU cut in the middle, a chunk list that declares 2^32-1 segments. It has one or more tries, each on its
// own connection. The answer of the peer is compared with what the documents name:
//
//	ok         the answer that they name, or one of them
//	tolerated  one that they allow, or that a known peer gives without harm
//	fails      anything else: another answer, silence, memory touched that nobody
//	           offered, a bad call that was executed
//
// After every case the peer must be alive: it must answer a NULL call on a fresh connection, and another on
// one that has been open from the start and is not used otherwise.
//
// The probe changes nothing at the peer: good and bad calls alike call only NULL, or a procedure, version or
// program that does not exist.
//
// The octets and the expectations are in internal/cases; this package has the
// connections and the clock.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Case describes a case.
type Case struct {
	Name  string `json:"case"`           // layer and a few words: "mpa/wrong-key"
	Rows  []int  `json:"rows,omitempty"` // of docs/adversary.md
	Rule  string `json:"rule"`           // where the documents say so
	Sends string `json:"sends"`          // in words
	Wants string `json:"wants"`          // the answers that are ok
}

// Try is how the peer did on one connection.
type Try struct {
	Name    string `json:"try,omitempty"` // what distinguishes it from the other tries
	Answer  string `json:"answer"`        // the kind of answer: ERR_CHUNK, Terminate, closed, ...
	Did     string `json:"did"`           // what the peer did, in words
	Verdict string `json:"verdict"`       // ok, tolerated or fails
	Why     string `json:"why,omitempty"` // who allows a tolerated answer, or what is wrong
	// Judged is what [github.com/stag-rdma/stag/conformance/internal/judge] finds wrong in what the peer sent. Breaches that a
	// receiver may not ignore make the verdict fails, unless the answer is tolerated for a reason of its own; others
	// make it tolerated.
	Judged []string `json:"judged,omitempty"`

	// Sent and Got are the first octets of the connection in either direction, as they are on the wire; with
	// [Prober.Octets] and [Trap.Octets] only.
	Sent []byte `json:"sent,omitempty"`
	Got  []byte `json:"got,omitempty"`
}

// Result is how the peer did in a case.
type Result struct {
	Case
	Verdict string   `json:"verdict"` // the worst of the tries; also fails if the peer did not survive
	Tries   []Try    `json:"tries"`
	Alive   []string `json:"alive,omitempty"` // what is wrong with the peer after the case; none: it is alive
	Seconds float64  `json:"seconds"`         // that it took, with the look whether the peer is alive
}

func describe(c *cases.Case) Case {
	return Case{Name: c.Name, Rows: c.Rows, Rule: c.Rule, Sends: c.Sends, Wants: c.Wanted()}
}

// Answers counts the answers to the tries: "closed 2, rejected 1".
func (r *Result) Answers() string {
	var order []string
	n := make(map[string]int)
	for _, t := range r.Tries {
		if n[t.Answer]++; n[t.Answer] == 1 {
			order = append(order, t.Answer)
		}
	}
	for i, a := range order {
		if len(r.Tries) > 1 {
			order[i] = fmt.Sprintf("%s %d", a, n[a])
		}
	}
	return strings.Join(order, ", ")
}

// fail records that the peer is not alive as it was.
func (r *Result) fail(why string) { r.Alive = append(r.Alive, why) }

// sum sets the verdict.
func (r *Result) sum() {
	worst := cases.OK
	for _, t := range r.Tries {
		for v := worst; v <= cases.Fails; v++ {
			if t.Verdict == v.String() {
				worst = v
			}
		}
	}
	if len(r.Alive) > 0 {
		worst = cases.Fails
	}
	r.Verdict = worst.String()
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	var there []string
	for _, s := range parts {
		if s != "" {
			there = append(there, s)
		}
	}
	return strings.Join(there, ": ")
}

// Usage is what a process uses.
type Usage struct {
	Memory      int64 // octets, resident
	Descriptors int
	Threads     int
	Goroutines  int // 0: not known
}

// UsageOf returns the usage of a process of this machine, from /proc.
func UsageOf(pid int) (u Usage, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.Fields(value + " 0")[0])
		switch name {
		case "VmRSS":
			u.Memory = int64(n) << 10 // it says kB
		case "Threads":
			u.Threads = n
		}
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	u.Descriptors = len(fds)
	return u, err
}

// What a process may use more after the probe than before it. Runtimes and kernels keep threads, and memory that
// was used once, for later.
const (
	moreMemory      = 128 << 20
	moreDescriptors = 4
	moreThreads     = 64
	moreGoroutines  = 8
)

// errGrown says that a process uses more than it may.
var errGrown = errors.New("more than before the probe")

// within returns an error unless u is about what was used before.
func (u Usage) within(before Usage) error {
	for _, r := range []struct {
		what            string
		was, is, margin int64
	}{
		{"octets of memory", before.Memory, u.Memory, moreMemory},
		{"descriptors", int64(before.Descriptors), int64(u.Descriptors), moreDescriptors},
		{"threads", int64(before.Threads), int64(u.Threads), moreThreads},
		{"goroutines", int64(before.Goroutines), int64(u.Goroutines), moreGoroutines},
	} {
		if r.is > r.was+r.margin {
			return fmt.Errorf("%w: %d %s, before: %d", errGrown, r.is, r.what, r.was)
		}
	}
	return nil
}

// resources is the case that compares what the peer uses after all others with what it used before.
func (p *Prober) resources() extra {
	return extra{Case{
		Name: "resources/after", Rule: "docs/probe.md",
		Sends: "nothing: what the server's process uses after all cases", Wants: "as much as before",
	}, func(ctx context.Context, r *Result) (func(), error) {
		t := Try{Answer: "as before", Verdict: cases.OK.String()}
		var err error
		var now Usage
		for stop := time.Now().Add(p.timeout()); ; time.Sleep(50 * time.Millisecond) { // connections end later than at once
			if now, err = p.Usage(); err == nil {
				err = now.within(p.before)
			}
			if err == nil || time.Now().After(stop) || ctx.Err() != nil {
				break
			}
		}
		t.Did = fmt.Sprintf("uses %d MiB, %d descriptors, %d threads; before: %d MiB, %d, %d",
			now.Memory>>20, now.Descriptors, now.Threads, p.before.Memory>>20, p.before.Descriptors, p.before.Threads)
		if err != nil {
			t.Answer, t.Verdict, t.Why = "grown", cases.Fails.String(), err.Error()
		}
		r.Tries = append(r.Tries, t)
		return func() {}, nil
	}}
}
