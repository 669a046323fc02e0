package pmemtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// Record is what a storage keeps. The sequence numbers of a storage begin with 1 and have no gaps.
type Record struct {
	Seq     uint64
	Payload []byte
}

// Trial is one run of a workload. It belongs to the goroutine that runs it.
type Trial struct {
	// Mem is what the workload stores to, by Store, Guard and Persist.
	Mem *Sim

	sent    map[uint64][][]byte
	acked   map[uint64][]byte
	applied uint64
	news    bool   // something has changed since the last moment
	moment  func() // looks at all crashes of this moment
}

// Sent tells x that a record is about to be stored. As long as a number is not acknowledged, it may
// be sent again, also with another payload.
func (x *Trial) Sent(seq uint64, payload []byte) {
	if !slices.ContainsFunc(x.sent[seq], func(p []byte) bool { return string(p) == string(payload) }) {
		x.sent[seq] = append(slices.Clip(x.sent[seq]), slices.Clone(payload)) // forks share it
	}
}

// Gone tells x that somebody was told that no record from seq on exists. None may come back until it is
// sent again.
func (x *Trial) Gone(seq uint64) {
	maps.DeleteFunc(x.sent, func(n uint64, _ [][]byte) bool { return n >= seq })
	x.news = true
	x.Step()
}

// Acked tells x that somebody was told that record seq is durable.
func (x *Trial) Acked(seq uint64, payload []byte) {
	x.acked[seq] = slices.Clone(payload)
	x.news = true
	x.Step()
}

// Applied tells x that the effects of all records up to seq are durable elsewhere.
func (x *Trial) Applied(seq uint64) {
	x.applied = max(x.applied, seq)
	x.news = true
	x.Step()
}

// Step marks a moment at which a crash may come, such as a message. Every store and flush of Mem is one.
func (x *Trial) Step() {
	if x.news { // otherwise the crashes are those of the last moment
		x.moment()
	}
}

// fork returns a run on another memory that has the same past.
func (x *Trial) fork() *Trial {
	return &Trial{sent: maps.Clone(x.sent), acked: maps.Clone(x.acked), applied: x.applied}
}

// Violation reports a crash after which recovery does not find what it should.
type Violation struct {
	Script string
	Moment int    // counted from 1
	Image  string // see Image.String
	Why    string

	Applied          uint64
	Acked, Recovered []uint64 // sequence numbers, ascending
	Extra            []uint64 // recovered but not acknowledged
	Err              error    // of recovery
}

// Error says what is wrong.
func (v *Violation) Error() string {
	s := fmt.Sprintf("pmemtest: %s: moment %d, crash %s: %s (applied to %d, acked %s, recovered %s, extra %s)",
		v.Script, v.Moment, v.Image, v.Why, v.Applied, spans(v.Acked), spans(v.Recovered), spans(v.Extra))
	if v.Err != nil {
		s += ": " + v.Err.Error()
	}
	return s
}

// Unwrap returns the error of recovery.
func (v *Violation) Unwrap() error { return v.Err }

// spans formats ascending numbers, for example as 1-4,7.
func spans(n []uint64) string {
	var s []string
	for i := 0; i < len(n); {
		j := i + 1
		for j < len(n) && n[j] == n[j-1]+1 {
			j++
		}
		if j == i+1 {
			s = append(s, fmt.Sprint(n[i]))
		} else {
			s = append(s, fmt.Sprintf("%d-%d", n[i], n[j-1]))
		}
		i = j
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, ",")
}

// check returns why a crash at this moment must not leave got, or "" if it may.
func (x *Trial) check(got []Record) string {
	next := uint64(1)
	for i, r := range got {
		if i == 0 {
			next = r.Seq
		}
		if r.Seq != next {
			return fmt.Sprintf("found record %d where %d should be", r.Seq, next)
		}
		next++
		if why := x.checkPayload(r); why != "" {
			return why
		}
	}
	if len(got) > 0 && got[0].Seq > x.applied+1 {
		return fmt.Sprintf("record %d is gone", x.applied+1)
	}
	have := x.applied
	if len(got) > 0 {
		have = max(have, next-1)
	}
	for seq := range x.acked {
		if seq > have {
			return fmt.Sprintf("acknowledged record %d is gone", seq)
		}
	}
	return ""
}

func (x *Trial) checkPayload(r Record) string {
	if p, ok := x.acked[r.Seq]; ok && string(p) != string(r.Payload) {
		return fmt.Sprintf("record %d is not the one that was acknowledged", r.Seq)
	}
	if !slices.ContainsFunc(x.sent[r.Seq], func(p []byte) bool { return string(p) == string(r.Payload) }) {
		return fmt.Sprintf("record %d was never sent, or is gone or torn", r.Seq)
	}
	return ""
}

// violation describes what check found.
func (x *Trial) violation(got []Record) *Violation {
	v := &Violation{Applied: x.applied}
	for seq := range x.acked {
		v.Acked = append(v.Acked, seq)
	}
	slices.Sort(v.Acked)
	for _, r := range got {
		v.Recovered = append(v.Recovered, r.Seq)
		if _, ok := x.acked[r.Seq]; !ok {
			v.Extra = append(v.Extra, r.Seq)
		}
	}
	return v
}
