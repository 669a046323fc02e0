package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
)

// Commit measures appends of 4 KiB to a commit log in another process: against a plain exchange of as many
// octets if the log is in memory, and against local writes with fdatasync if it is in a file of dir. A round
// takes n appends for latencies, and dur for rates. Only the cases whose names contain only are measured.
func Commit(p CommitPeer, dir, only string, rounds, n int, dur time.Duration, progress func(done, of int)) ([]Result, error) {
	cases := slices.Concat(simCases(p, n), fileCases(p, dir, n/10), producerCases(p, dir, dur))
	return measure.Run(cases, only, rounds, progress)
}

// simCases are appends to memory, against an exchange over TCP.
func simCases(p CommitPeer, n int) []measure.Case {
	echo := func() (float64, error) { return echoLatency(p.Echo, n) }
	against := func(name string, gate, goal float64, ours func() (float64, error)) measure.Case {
		return measure.Case{
			Result: Result{Name: name + ", against TCP round trip", Unit: "us", Gate: gate, Goal: goal, AtMost: true},
			Round:  measure.Pair(echo, ours), Best: true,
		}
	}
	return []measure.Case{
		against("append, plain memory", 0, 0, func() (float64, error) { return appendLatency(p.RAM, 0, n) }),
		against("append, sim", 0, 1.4, func() (float64, error) { return appendLatency(p.Sim, 0, n) }),
		against("append, sim, busy polling", 1.4, 0, func() (float64, error) { return appendLatency(p.SimPoll, pollFor, n) }),
		against("TCP round trip, busy polling", 0, 0, func() (float64, error) { return echoPolling(p.EchoPoll, n) }),
	}
}

// fileCases are appends to a file, against local writes of the same size. Those over plain TCP show what is
// possible: a process that does nothing but read, write and answer.
func fileCases(p CommitPeer, dir string, n int) []measure.Case {
	against := func(how placing, name string, gate, goal float64, ours func() (float64, error)) measure.Case {
		base := "overwrite"
		if how == extend {
			base = "extending write"
		}
		return measure.Case{
			Result: Result{Name: name + ", against local " + base + "+fdatasync", Unit: "us", Gate: gate, Goal: goal, AtMost: true},
			Round:  measure.Pair(func() (float64, error) { return localLatency(dir, how, n) }, ours),
		}
	}
	file := func() (float64, error) { return appendLatency(p.File, 0, n) }
	polled := func() (float64, error) { return appendLatency(p.FilePoll, pollFor, n) }
	return []measure.Case{
		against(overwrite, "append, file", 0, 1.3, file),
		against(overwrite, "append, file, busy polling", 1.3, 0, polled),
		against(extend, "append, file", 0, 0.8, file),
		against(extend, "append, file, busy polling", 0.8, 0, polled),
		against(overwrite, "local overwrite past the page cache", 0, 0, func() (float64, error) { return localLatency(dir, direct, n) }),
		against(overwrite, "plain TCP to a process that writes and calls fdatasync", 0, 0, func() (float64, error) { return echoLatency(p.Bare, n) }),
		against(overwrite, "plain TCP, busy polling, to a process that writes and calls fdatasync", 0, 0, func() (float64, error) { return echoPolling(p.BarePoll, n) }),
		against(overwrite, "plain TCP, busy polling, to a process that writes past the page cache", 0, 0, func() (float64, error) { return echoPolling(p.DirectPoll, n) }),
	}
}

// producers is how many append at a time.
var producers = []int{1, 2, 4, 16, 64}

// producerCases are producers that share one connection and one log: against as many producers that each
// have a plain TCP connection and whose appends become durable one by one, and against as many local writers
// with a file each. Where ours poll, plain TCP may poll or not, whichever is faster: several that poll are
// in each other's way. Goroutines with a log in their own process show group commit without a network.
func producerCases(p CommitPeer, dir string, dur time.Duration) []measure.Case {
	var cases []measure.Case
	add := func(k int, how, base string, gate, goal float64, theirs, ours func() (float64, error)) {
		cases = append(cases, measure.Case{
			Result: Result{Name: fmt.Sprintf("%d producers, file%s, against as many %s", k, how, base), Unit: "/s", Gate: gate, Goal: goal},
			Round:  measure.Pair(theirs, ours),
		})
	}
	const tcp, local = "by plain TCP, an fdatasync each", "local writers"
	for _, k := range producers {
		alone := func() (float64, error) { return localRate(dir, k, dur) }
		bare := func() (float64, error) { return bareRate(p.Bare, false, k, dur) }
		ours := func() (float64, error) { return appendRate(p.File, 0, k, dur) }
		if bound := groupGates[k]; bound > 0 {
			add(k, "", tcp, bound, 0, bare, ours)
			add(k, "", local, bound, 0, alone, ours)
			continue
		}
		bareBest := func() (float64, error) {
			polling, err := bareRate(p.BarePoll, true, k, dur)
			if err != nil {
				return 0, err
			}
			usual, err := bare()
			return max(polling, usual), err
		}
		oursPoll := func() (float64, error) { return appendRate(p.FilePoll, pollFor, k, dur) }
		add(k, "", tcp, 0, fewGate, bare, ours)
		add(k, ", busy polling", tcp, fewGate, 0, bareBest, oursPoll)
		add(k, ", busy polling", local, fewGate, 0, alone, oursPoll)
	}
	for _, k := range producers {
		cases = append(cases, measure.Case{
			Result: Result{Name: fmt.Sprintf("%d goroutines with a log in their process, file, against as many local writers", k), Unit: "/s", Gate: max(groupGates[k], fewGate)},
			Round: measure.Pair(
				func() (float64, error) { return localRate(dir, k, dur) },
				func() (float64, error) { return ownLogRate(dir, k, dur) }),
		})
	}
	return append(cases, measure.Case{
		Result: Result{Name: "slowest of 7 producers beside a flooding one, against 8 like it", Unit: "/s", Gate: 0.7},
		Round: measure.Pair(
			func() (float64, error) { return fairShare(p.File, false, dur) },
			func() (float64, error) { return fairShare(p.File, true, dur) }),
	})
}

// What group commit should gain, by the number of producers, and what it may cost if they are too few.
var groupGates = map[int]float64{16: 1.2, 64: 2.2}

const fewGate = 0.9
