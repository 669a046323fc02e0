package judge_test

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// session is a conversation of a commit log with a ring of 1024 octets: the initiator appends.
type session struct {
	*twin.Trace
	commitlog.Answer
	at, seq uint64
}

const ringTag, tailTag, headTag = 0x1100, 0x2200, 0x3300

// newSession opens one. f changes the answer.
func newSession(mode commitlog.Mode, f func(*commitlog.Answer)) *session {
	s := &session{Trace: twin.New().Startup(), Answer: commitlog.Answer{
		Epoch: 3, Salt: 0x1234, Capacity: 1024, Mode: mode, Hash: commitlog.CRC32C, Persistent: true,
		RingSTag: ringTag, TailSTag: tailTag, HeadSTag: headTag, Head: 512, Tail: 640, NextSeq: 7, LastEpoch: 2,
	}}
	f(&s.Answer)
	s.at, s.seq = s.Answer.Tail, s.NextSeq
	s.Send(twin.I, nil)
	s.Send(twin.R, s.Answer.Append(nil))
	return s
}

// octets returns a record in its format (docs/commitlog-format.md); word is its first word.
func (s *session) octets(word, epoch uint32, seq uint64, payload []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, word), epoch), seq)
	sum := be.AppendUint64(nil, s.Salt)
	sum = append(sum, b[4:16]...)
	b = be.AppendUint64(b, 0) // nothing is proven
	sum = append(append(append(sum, b[:4]...), b[16:24]...), payload...)
	b = append(be.AppendUint32(b, crc32.Checksum(sum, crc32.MakeTable(crc32.Castagnoli))), payload...)
	return append(b, make([]byte, -len(b)&63)...)
}

// put writes, flushes and answers.
func (s *session) put(b []byte) {
	off := s.at % s.Capacity
	s.Write(twin.I, ringTag, off, b)
	s.Flush(twin.I, ringTag, uint32(len(b)), off)
	s.FlushResponse(twin.R)
	s.at += uint64(len(b))
}

// record puts the next record.
func (s *session) record(n int) {
	s.put(s.octets(uint32(n), s.Epoch, s.seq, make([]byte, n)))
	s.seq++
}

// filler puts the filler at the end of the ring; short is by how much it is too short.
func (s *session) filler(short uint32) {
	rest := s.Capacity - s.at%s.Capacity
	s.put(s.octets(1<<31|(uint32(rest)-short), s.Epoch, s.seq, nil))
	s.at += rest - 64 - uint64(short)
}

// store stores the tail, and flushes it in strict mode.
func (s *session) store(tail uint64) {
	s.AtomicWrite(twin.I, tailTag, 0, tail)
	s.AtomicWriteResponse(twin.R)
	if s.Mode == commitlog.Strict {
		s.flushTail()
	}
}

func (s *session) flushTail() {
	s.Flush(twin.I, tailTag, 8, 0)
	s.FlushResponse(twin.R)
}

// appended appends a record of 100 octets: 128 in the ring.
func (s *session) appended() {
	s.record(100)
	s.store(s.at)
}

func unchanged(*commitlog.Answer) {}

// strict is a session in strict mode with one append, and then f.
func strictly(f func(*session)) func() *twin.Trace {
	return func() *twin.Trace {
		s := newSession(commitlog.Strict, unchanged)
		s.appended()
		f(s)
		return s.Trace
	}
}

var commitTwins = map[string]func() *twin.Trace{
	"COMMIT-001": func() *twin.Trace {
		return newSession(commitlog.WAL, func(a *commitlog.Answer) { a.Head, a.Tail = 640, 512 }).Trace
	},
	"COMMIT-002": strictly(func(s *session) { s.at += 64; s.record(10); s.store(s.at) }),
	"COMMIT-003": strictly(func(s *session) { s.seq++; s.appended() }),
	"COMMIT-004": strictly(func(s *session) { s.Epoch++; s.appended() }),
	"COMMIT-005": strictly(func(s *session) {
		b := s.octets(10, s.Epoch, s.seq, make([]byte, 10))
		b[25] ^= 1
		s.put(b)
		s.store(s.at)
	}),
	"COMMIT-006": strictly(func(s *session) { // half of the ring is 512, so a payload has at most 492
		s.filler(0)
		s.record(500)
		s.store(s.at)
	}),
	"COMMIT-007": strictly(func(s *session) { s.filler(64); s.store(s.at) }),
	"COMMIT-008": strictly(func(s *session) {
		s.Flush(twin.I, ringTag, 128, 960)
		s.FlushResponse(twin.R)
	}),
	"COMMIT-009": strictly(func(s *session) {
		s.filler(0)
		for range 4 {
			s.appended() // the last one from 512 on, what was there is not released
		}
		s.appended()
	}),
	"COMMIT-010": strictly(func(s *session) { s.store(s.at) }),
	"COMMIT-011": strictly(func(s *session) { s.record(100); s.store(s.at - 64) }),
	"COMMIT-012": strictly(func(s *session) {
		s.record(100)
		s.Drop(s.Frames[len(s.Frames)-2:]...)
		s.store(s.at)
		s.Renumber()
	}),
	"COMMIT-013": strictly(func(s *session) { s.Mode = commitlog.WAL; s.appended(); s.appended() }),
	"COMMIT-014": strictly(func(s *session) {
		s.record(100)
		s.Frames[len(s.Frames)-2].Payload[19] = 2 // for visibility
		s.store(s.at)
	}),
	"COMMIT-015": strictly(func(s *session) { s.Write(twin.I, tailTag, 0, make([]byte, 8)) }),
	"COMMIT-016": strictly(func(s *session) { s.Immediate(twin.R, s.at+64) }),
}

// goodLog appends twice round the ring.
func goodLog(mode commitlog.Mode) *twin.Trace {
	s := newSession(mode, unchanged)
	for range 20 {
		if s.Capacity-s.at%s.Capacity < 192 {
			s.filler(0)
		}
		s.record(100)
		s.record(44)
		s.store(s.at)
		s.Immediate(twin.R, s.at-192)
	}
	r := decode.ReadRequest{SinkSTag: 9, Size: 8, SourceSTag: headTag}
	s.ReadRequest(twin.I, r)
	s.Tagged(twin.R, verbs.OpReadResponse, 9, 0, binary.BigEndian.AppendUint64(nil, s.at))
	return s.Close()
}

// playedLog judges a conversation. It returns the rules broken.
func playedLog(t *testing.T, conv *twin.Trace) (broken []string) {
	t.Helper()
	j := judge.New(nil, func(v *judge.Violation) {
		t.Log(v)
		if !slices.Contains(broken, v.Rule.ID) {
			broken = append(broken, v.Rule.ID)
		}
	})
	conv.Play(nil, func(ev *decode.Event) { j.Event(ev) })
	j.End()
	return broken
}

// TestTwinsCommit: one change to a good session breaks one rule, and the right one.
func TestTwinsCommit(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.WAL, commitlog.Strict} {
		if got := playedLog(t, goodLog(mode)); got != nil {
			t.Errorf("a good session breaks %v", got)
		}
	}
	for _, r := range judge.CommitRules {
		t.Run(r.ID, func(t *testing.T) {
			talk := commitTwins[r.ID]
			if talk == nil {
				t.Fatal("no twin")
			}
			if got := playedLog(t, talk()); !slices.Equal(got, []string{r.ID}) {
				t.Errorf("broken: %v", got)
			}
		})
	}
}
