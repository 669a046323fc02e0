package bench

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
)

// clients is how many clients write at a time when rates are measured.
const clients = 16

// Options configure a run. Zero fields mean the defaults.
type Options struct {
	Rounds   int                // of each case; if zero, 9
	Writes   int                // in a round of latencies without a disk, a tenth with one; if zero, 2000
	Rate     time.Duration      // length of a round of rates; if zero, a second
	Only     string             // run only the cases whose name contains it
	Progress func(done, of int) // called as cases end, if not nil
}

func (o *Options) fill() Options {
	f := *o
	if f.Rounds == 0 {
		f.Rounds = 9
	}
	if f.Writes == 0 {
		f.Writes = 2000
	}
	if f.Rate == 0 {
		f.Rate = time.Second
	}
	return f
}

// gate is one line of the report.
func gate(r measure.Result, base, ours func() (float64, error)) measure.Case {
	return measure.Case{Result: r, Round: measure.Pair(base, ours)}
}

// Push compares durable writes of 4 KiB at p: by push and by WRITE with FILE_SYNC.
func Push(p Peer, o *Options) ([]measure.Result, error) {
	opt := o.fill()
	cases := slices.Concat(simCases(p.Sim, &opt), fileCases(p.File, &opt))
	return measure.Run(cases, opt.Only, opt.Rounds, opt.Progress)
}

func simCases(at Place, o *Options) []measure.Case {
	pushed := latency(newLogs(at.Push).byPush(false), o.Writes, payload)
	return []measure.Case{
		gate(measure.Result{Name: "sim, 1 client: push against WRITE pulled by read chunk", Unit: "us", Gate: 0.6, AtMost: true},
			latency(byWrite(at.NFS, pulledConfig(), false), o.Writes, payload), pushed),
		gate(measure.Result{Name: "sim, 1 client: push against WRITE sent inline", Unit: "us", Gate: 1, AtMost: true},
			latency(byWrite(at.NFS, nil, false), o.Writes, payload), pushed),
	}
}

func fileCases(at Place, o *Options) (cases []measure.Case) {
	n, l := max(o.Writes/10, 10), newLogs(at.Push)
	for _, against := range []struct {
		name    string
		extend  bool
		latency float64
	}{{"WRITE extending", true, 0.8}, {"WRITE overwriting", false, 1.2}} {
		write, pushed := byWrite(at.NFS, nil, against.extend), l.byPush(against.extend)
		cases = append(cases,
			gate(measure.Result{Name: "file, 1 client: push against " + against.name, Unit: "us", Gate: against.latency, AtMost: true},
				latency(write, n, payload), latency(pushed, n, payload)),
			gate(measure.Result{Name: "file, 16 clients: push against " + against.name, Unit: "/s", Gate: 3},
				rate(write, o.Rate), rate(pushed, o.Rate)),
			gate(measure.Result{Name: "file, processor time of the server, applied: push against " + against.name, Unit: "us", Gate: 0.8, AtMost: true},
				cost(write, at, n), cost(pushed, at, n)))
	}
	return append(cases, gate(measure.Result{Name: "file, 16 clients: push against plain TCP and a durable write, nothing else", Unit: "/s"},
		rate(byBare(at.Bare), o.Rate), rate(l.byPush(false), o.Rate)))
}

// latency has one client write size octets n times and returns the median in microseconds.
func latency(d dialer, n, size int) func() (float64, error) {
	return func() (float64, error) {
		w, err := d(0)
		if err != nil {
			return 0, err
		}
		defer w.close()
		p := make([]byte, size)
		return measure.MedianOf(n, func() error { return w.write(p) })
	}
}

// rate has 16 clients write for dur and returns the acknowledged writes per second.
func rate(d dialer, dur time.Duration) func() (float64, error) {
	return func() (float64, error) {
		ws, err := d.all(clients)
		defer func() {
			for _, w := range ws {
				if w != nil {
					w.close()
				}
			}
		}()
		if err != nil {
			return 0, err
		}
		p := make([]byte, payload)
		return measure.Rate(clients, dur, func(i int) error { return ws[i].write(p) })
	}
}

// all makes k writers at the same time. If it returns an error, some of them are nil.
func (d dialer) all(k int) ([]writer, error) {
	ws, errs := make([]writer, k), make([]error, k)
	var wg sync.WaitGroup
	for i := range k {
		wg.Go(func() { ws[i], errs[i] = d(i) })
	}
	wg.Wait()
	return ws, errors.Join(errs...)
}

// cost has one client write n times and returns the server's processor time per write, in
// microseconds, including the time to apply everything to the file.
func cost(d dialer, at Place, n int) func() (float64, error) {
	return func() (float64, error) {
		w, err := d(0)
		if err != nil {
			return 0, err
		}
		defer w.close()
		before, err := serverCPU(at)
		if err != nil {
			return 0, err
		}
		p := make([]byte, payload)
		for range n {
			if err := w.write(p); err != nil {
				return 0, err
			}
		}
		if err := w.apply(); err != nil {
			return 0, err
		}
		after, err := serverCPU(at)
		return float64((after - before).Nanoseconds()) / 1e3 / float64(n), err
	}
}
