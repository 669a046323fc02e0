package pmemtest

import (
	"maps"
	"slices"
)

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
