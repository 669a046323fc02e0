package pmemtest

import (
	"errors"
	"fmt"
)

// Script is a workload that can be crashed.
type Script struct {
	Name string
	Size int // of the memory in octets; it begins as zeros
	// Run is the workload. It does the same each time.
	Run func(x *Trial) error
	// Recover returns, in order, the records that recovery would return from a memory with these
	// octets, which it borrows. An error is a violation, unless it is ErrNothing and nothing has been
	// acknowledged yet.
	Recover func(octets []byte) ([]Record, error)
	// Again, if not nil, continues after a crash: recovery with its own stores, and more of the
	// workload. It is crashed like Run, on some of the images of Run.
	Again func(x *Trial) error
}

// ErrNothing: recovery found no storage. Before the first acknowledgment that is correct.
var ErrNothing = errors.New("pmemtest: nothing there yet")

// Budget limits an exploration. Zero fields mean the defaults.
type Budget struct {
	// Seed of the random images. If zero, 1.
	Seed uint64
	// Samples is how many random images are tried per moment and grain, if not all are. If zero, 4.
	Samples int
	// Images is the most images of one moment that are tried. If zero, 300; if negative, all that
	// Snapshot.Crashes yields.
	Images int
	// Again is the number of images after which Script.Again continues from one. If zero, 200; if
	// negative, never.
	Again int
}

func (b Budget) withDefaults() Budget {
	for _, f := range []struct {
		p *int
		v int
	}{{&b.Samples, 4}, {&b.Images, 300}, {&b.Again, 200}} {
		if *f.p == 0 {
			*f.p = f.v
		}
	}
	if b.Seed == 0 {
		b.Seed = 1
	}
	return b
}

// Report says what was tried.
type Report struct {
	Moments  int // moments at which everything was stopped
	Images   int // memories that recovery has read
	Restarts int // crashes after which the workload continued
	Acked    int // acknowledged records; if 0, the workload has tested nothing
}

func (r *Report) add(o Report) {
	r.Moments, r.Images, r.Restarts = r.Moments+o.Moments, r.Images+o.Images, r.Restarts+o.Restarts
}

// Explore runs a script and crashes it at every moment. The error is a *Violation, or that of the
// workload.
func Explore(s *Script, b Budget) (Report, error) {
	x := &Trial{sent: make(map[uint64][][]byte), acked: make(map[uint64][]byte)}
	e := explorer{s: s, b: b.withDefaults(), depth: 1}
	e.start(x, make([]byte, s.Size))
	err := e.run(x, s.Run)
	e.report.Acked = len(x.acked)
	return e.report, err
}

// explorer crashes one run.
type explorer struct {
	s      *Script
	b      Budget
	depth  int // how often the workload may continue after a crash
	report Report
	err    error
}

// errStop ends a workload that has failed its check.
var errStop = errors.New("pmemtest: stop")

func (e *explorer) start(x *Trial, octets []byte) {
	x.Mem = OpenSim(octets, &SimOptions{Step: func(*Sim) {
		x.news = true
		x.Step()
	}})
	x.moment = func() { e.moment(x) }
}

func (e *explorer) run(x *Trial, f func(*Trial) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if r != any(errStop) {
				panic(r)
			}
			err = e.err
		}
	}()
	return f(x)
}

// moment tries the crashes of this moment. If one is fatal, it leaves the workload with a panic, because
// it may be called from anywhere.
func (e *explorer) moment(x *Trial) {
	x.news = false
	snap := x.Mem.Told()
	e.report.Moments++
	n := 0
	for im := range snap.Crashes(e.b.Seed+uint64(e.report.Moments), e.b.Samples) {
		if n++; e.b.Images > 0 && n > e.b.Images {
			break
		}
		e.report.Images++
		if v := e.look(x, im); v != nil {
			v.Script, v.Moment, v.Image = e.s.Name, e.report.Moments, im.String()
			e.err = v
			panic(errStop)
		}
		if e.s.Again != nil && e.depth > 0 && e.b.Again > 0 && e.report.Images%e.b.Again == 0 {
			e.again(x, im)
		}
	}
}

// look recovers an image.
func (e *explorer) look(x *Trial, im *Image) *Violation {
	got, err := e.s.Recover(im.Octets())
	var why string
	switch {
	case errors.Is(err, ErrNothing) && len(x.acked) == 0:
		return nil
	case err != nil:
		why = "recovery fails"
	default:
		why = x.check(got)
	}
	if why == "" {
		return nil
	}
	v := x.violation(got)
	v.Why, v.Err = why, err
	return v
}

// again continues after a crash.
func (e *explorer) again(x *Trial, im *Image) {
	y := x.fork()
	inner := explorer{s: e.s, b: e.b, depth: e.depth - 1}
	inner.start(y, im.Octets())
	err := inner.run(y, e.s.Again)
	e.report.add(inner.report)
	e.report.Restarts++
	if err != nil {
		e.err = fmt.Errorf("after moment %d, crash %s: %w", e.report.Moments, im, err)
		panic(errStop)
	}
}
