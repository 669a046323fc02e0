package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
)

// Commit measures appends of 4 KiB to a commit log in another process: against a plain
// exchange of as many octets when the log is in memory, against local writes with
// fdatasync when it is in a file of dir. N appends a round for latencies, dur a round for
// rates; only the cases whose name holds only.
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

// fileCases are appends to a file, against local writes of the same size. Those of plain
// TCP say what is possible: a process that does no more than read, write and answer.
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

// producerCases are producers that share one connection and one log, against as many
// local writers with a file each.
func producerCases(p CommitPeer, dir string, dur time.Duration) []measure.Case {
	var cases []measure.Case
	add := func(k int, how string, gate, goal float64, addr string, poll time.Duration) {
		cases = append(cases, measure.Case{
			Result: Result{Name: fmt.Sprintf("%d producers, file%s, against as many local writers", k, how), Unit: "/s", Gate: gate, Goal: goal},
			Round: measure.Pair(
				func() (float64, error) { return localRate(dir, k, dur) },
				func() (float64, error) { return appendRate(addr, poll, k, dur) }),
		})
	}
	for _, k := range []int{1, 2, 4} {
		add(k, "", 0, 0.9, p.File, 0)
		add(k, ", busy polling", 0.9, 0, p.FilePoll, pollFor)
	}
	add(16, "", 1.2, 0, p.File, 0)
	add(64, "", 2.2, 0, p.File, 0)
	return append(cases, measure.Case{
		Result: Result{Name: "slowest of 7 producers beside a flooding one, against 8 like it", Unit: "/s", Gate: 0.7},
		Round: measure.Pair(
			func() (float64, error) { return fairShare(p.File, false, dur) },
			func() (float64, error) { return fairShare(p.File, true, dur) }),
	})
}
