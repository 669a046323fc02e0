package crashtest

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// Script is a workload that can be crashed.
type Script struct {
	Name string
	Size int // of the memory, octets, zeros at first
	// Run is the workload. It does the same each time.
	Run func(x *Run) error
	// Recover returns the records that recovery would hand out of a memory with these
	// octets, in order. Octets are borrowed. An error is a violation, unless nothing has
	// been acknowledged yet and it is ErrNothing.
	Recover func(octets []byte) ([]Record, error)
	// Again, if not nil, goes on after a crash: recovery with its own stores, and more
	// of the workload. It is crashed as Run is, on some of the images of Run.
	Again func(x *Run) error
}

// ErrNothing: recovery found no storage. Before the first acknowledgement that is right.
var ErrNothing = errors.New("crashtest: nothing there yet")

// Budget bounds an exploration. Zero fields mean the defaults.
type Budget struct {
	// Seed of the random images. If zero, 1.
	Seed uint64
	// Samples is how many random images are tried where not all are, per moment and
	// grain. If zero, 4.
	Samples int
	// Images is how many images of one moment are tried at most; negative: all that
	// pmem.Snapshot.Crashes yields. If zero, 300.
	Images int
	// Again is every how many images Script.Again goes on from one. If zero, 200;
	// negative: never.
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
	Moments  int // at which everything ended
	Images   int // memories that recovery was shown
	Restarts int // crashes that the workload went on from
	Acked    int // records that the workload was told are durable: none says that it does nothing
}

func (r *Report) add(o Report) {
	r.Moments, r.Images, r.Restarts = r.Moments+o.Moments, r.Images+o.Images, r.Restarts+o.Restarts
}

// Explore runs a script and crashes it at every moment. The error is a *Violation, or
// what the workload returned.
func Explore(s *Script, b Budget) (Report, error) {
	x := &Run{sent: make(map[uint64][][]byte), acked: make(map[uint64][]byte)}
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
	depth  int // how often the workload may go on after a crash
	report Report
	err    error
}

// errStop ends a workload that has failed its check.
var errStop = errors.New("crashtest: stop")

func (e *explorer) start(x *Run, octets []byte) {
	x.Mem = pmem.OpenSim(octets, &pmem.SimOptions{Step: func(*pmem.Sim) {
		x.news = true
		x.Step()
	}})
	x.moment = func() { e.moment(x) }
}

func (e *explorer) run(x *Run, f func(*Run) error) (err error) {
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

// moment tries the crashes of now. It leaves the workload by a panic when one is fatal,
// since that may be anywhere.
func (e *explorer) moment(x *Run) {
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
func (e *explorer) look(x *Run, im *pmem.Image) *Violation {
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

// again goes on after a crash.
func (e *explorer) again(x *Run, im *pmem.Image) {
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
