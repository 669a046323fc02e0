package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// extra is a case that is about many connections, or about all cases together, and so is not one of octets.
type extra struct {
	Case
	play func(ctx context.Context, r *Result) (release func(), err error)
}

// Defaults of the cases of load.
const (
	DefaultClients = 1000
	slowReaders    = 32
	dialers        = 32 // at a time
	floodTime      = time.Second
	floodCalls     = 1 << 14
	maxCredits     = 1024
)

// extras returns the selected cases of load.
func (p *Prober) extras() (list []extra) {
	n := p.Clients
	if n == 0 {
		n = DefaultClients
	}
	for _, x := range []extra{
		{Case{
			Name: "load/clients", Rule: "RFC 8166 Section 3.3", Wants: "answered",
			Sends: fmt.Sprintf("a NULL call on each of %d connections that are open at the same time", n),
		}, func(ctx context.Context, r *Result) (func(), error) {
			p.clients(ctx, r, n)
			return func() {}, nil
		}},
		{Case{
			Name: "load/credits", Rule: "RFC 8166 Section 3.3.1", Wants: "all answered",
			Sends: "as many NULL calls at once as the server has granted credits",
		}, p.credits},
		{Case{
			Name: "load/slow-readers", Rule: "RFC 5044 Section 8", Wants: "others are served",
			Sends: fmt.Sprintf("calls on %d connections that read nothing, beyond their credits", slowReaders),
		}, p.slow},
	} {
		if p.selected(x.Name) {
			list = append(list, x)
		}
	}
	return list
}

// clients makes a call on each of n connections, and closes them when all have been answered or refused. A server
// may limit them, but must serve some, and new ones afterwards.
func (p *Prober) clients(ctx context.Context, r *Result, n int) {
	var mu sync.Mutex
	var open []*wire
	answers := make(map[string]int)
	var said []string
	work := make(chan uint32)
	var all sync.WaitGroup
	for range dialers {
		all.Go(func() {
			for xid := range work {
				t := cases.Alive(p.target, xid)
				x, err := p.play(ctx, &t)
				kind := "no connection"
				if err == nil {
					kind = t.Judge(&x.w.Seen).Kind.String()
				}
				mu.Lock()
				if answers[kind]++; x != nil {
					open = append(open, x)
				}
				mu.Unlock()
			}
		})
	}
	for range n {
		if ctx.Err() == nil {
			work <- p.nextXID()
		}
	}
	close(work)
	all.Wait()
	worst := cases.OK
	for _, x := range open {
		x.close()
		s, w := x.faults()
		if worst = max(worst, w); len(said) < 8 {
			said = append(said, s...)
		}
	}
	t := Try{Answer: fmt.Sprintf("answered %d of %d", answers[cases.KindAnswered.String()], n), Judged: said}
	t.Did = counted(answers)
	switch ok := answers[cases.KindAnswered.String()]; {
	case ok == 0:
		worst, t.Why = cases.Fails, "none is served"
	case ok < n && worst == cases.OK:
		worst, t.Why = cases.Tolerated, "a server may limit its connections"
	}
	t.Verdict = worst.String()
	r.Tries = append(r.Tries, t)
	p.recover(ctx, r)
}

// counted says how often each answer came: "answered 617, silence 383".
func counted(answers map[string]int) string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(answers)) {
		words = append(words, fmt.Sprintf("%s %d", kind, answers[kind]))
	}
	return strings.Join(words, ", ")
}

// credits uses all credits that the server grants.
func (p *Prober) credits(ctx context.Context, r *Result) (release func(), err error) {
	x, err := p.call(ctx)
	if err != nil {
		r.fail("a new connection is not served: " + err.Error())
		return func() {}, err
	}
	n := int(min(x.grant(), maxCredits))
	x.stop = time.Now().Add(p.timeout())
	x.w.Seen.Answers = nil
	var b []byte
	var xids []uint32
	for i := range uint32(n) {
		xids = append(xids, p.nextXID())
		b = append(b, x.frame(cases.NullCall(p.target, xids[i], i+2))...)
	}
	x.try = &cases.Try{Subjects: xids, Steps: []cases.Step{{}}}
	x.write(b, 0, 0)
	missing := func() (k int) {
		for _, xid := range xids {
			if x.w.Seen.Answer(xid) == nil {
				k++
			}
		}
		return k
	}
	for missing() > 0 && !x.w.Seen.Ended && x.more(x.stop) {
	}
	t := Try{Answer: fmt.Sprintf("answered %d of %d", n-missing(), n), Did: "answered", Verdict: cases.OK.String()}
	said, worst := x.faults()
	if t.Judged = said; missing() > 0 {
		worst, t.Why = cases.Fails, "it does not serve the calls for which it grants credits"
	}
	t.Verdict = worst.String()
	r.Tries = append(r.Tries, t)
	return x.close, nil
}

// slow fills the connections of clients that do not read.
func (p *Prober) slow(ctx context.Context, r *Result) (release func(), err error) {
	var wires []*wire
	release = func() {
		for _, x := range wires {
			x.close()
		}
	}
	for range slowReaders {
		x, err := p.call(ctx)
		if err != nil {
			r.fail("a new connection is not served: " + err.Error())
			return release, err
		}
		wires = append(wires, x)
	}
	stop := time.Now().Add(floodTime)
	var all sync.WaitGroup
	for i, x := range wires {
		all.Go(func() { p.flood(x, uint32(i), stop) })
	}
	all.Wait()
	r.Tries = append(r.Tries, Try{Answer: "survived", Did: "went on while nobody read", Verdict: cases.OK.String()})
	return release, nil
}

// flood writes calls until nothing more is taken.
func (p *Prober) flood(x *wire, n uint32, stop time.Time) {
	_ = x.nc.SetWriteDeadline(stop)
	var b []byte
	for i := range uint32(floodCalls) {
		b = mpa.AppendFPDU(b[:0], cases.NullCall(p.target, n<<20+i, i+2), x.crc)
		if _, err := x.judged.Conn.Write(b); err != nil { // it ends the connection, or takes no more
			return
		}
	}
}

// recover waits until the peer serves new connections again, which may take it a moment after many have ended.
func (p *Prober) recover(ctx context.Context, r *Result) {
	var err error
	for stop := time.Now().Add(p.timeout()); time.Now().Before(stop) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if err = p.alive(ctx); err == nil {
			return
		}
	}
	r.fail("a new connection is not served: " + err.Error())
}
