package engine_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sendSegment returns a segment of the Send with the given MSN.
func sendSegment(msn uint32, mo int, last bool, payload string) []byte {
	s := ddp.Segment{Control: engine.ControlOctet(verbs.OpSend), QN: ddp.QNSend, MSN: msn, MO: uint32(mo), Last: last}
	return append(s.Append(nil), payload...)
}

// queueModel states a second time, slowly, what a RecvQueue promises.
type queueModel struct {
	posted, accepted int // totals
	free             int
	limit, events    int
	used             [3]int
}

func (m *queueModel) check() {
	if m.limit > m.free {
		m.limit = 0
		m.events++
	}
}

// FuzzRecvQueue: three streams share a queue, one of them with a quota. Sends, whole and in pieces, posting,
// arming and the end of streams may come in any order. A Send is accepted exactly if there is a receive for it,
// so never are more accepted than posted. Each limit event occurs once and at the right moment, and receives
// that a stream has not used when it ends are not lost.
func FuzzRecvQueue(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x10\x11\x12\x00\x01\x02\x30\x01\x20\x20\x42\x00\x00\x01\x01"))
	f.Add([]byte("\x54\x00\x01\x53\x02\x00\x00\x60\x01\x01\x20\x00\x20\x00\x71\x01"))
	f.Add([]byte("\x10c\x110\x120\x00"))
	f.Add([]byte("\x02\x02\x02"))             // beyond the quota
	f.Add([]byte("\x3c\x2e\x02\x02\x02"))     // posted more than used
	f.Add([]byte("\x70\x51\x5c\x71\x72\x00")) // refused after its receive was taken
	f.Add([]byte("\x10\x60\x11\x61\x12\x62\x38\x10\x52\x00"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		const start, quota = 3, 2
		q := engine.NewRecvQueue(start)
		m := queueModel{posted: start, free: start}
		pool := buf.NewPool(1 << 20)
		var es [3]*halves
		var msn [3]uint32
		var open [3]bool
		for i := range es {
			es[i] = newEngine(engineConfig{queue: q, size: 64, pool: pool})
		}
		es[2].rcv.SetQuota(quota)
		events := 0
		for _, op := range ops {
			i, n := int(op)&3%3, int(op>>2)&3
			e := es[i]
			switch op >> 4 {
			case 0, 1: // a Send: whole, or its first or last piece
				if e.err != nil {
					continue
				}
				last := op>>4 == 0
				switch {
				case open[i] && last:
					e.input(enginetest.FPDU(sendSegment(msn[i], 1, true, "y")))
					open[i] = false
					continue
				case open[i]:
					continue
				}
				msn[i]++
				ok := m.free > 0 && (i != 2 || m.used[i] < quota)
				if ok {
					m.free--
					m.accepted++
					m.used[i]++
					m.check()
				}
				e.input(enginetest.FPDU(sendSegment(msn[i], 0, last, "x")))
				pe, _ := errors.AsType[*verbs.ProtocolError](e.err)
				if ok != (e.err == nil) || !ok && pe.Code != enginetest.NoBuffer {
					t.Fatalf("accepted %v, want %v: %v", e.err == nil, ok, e.err)
				}
				open[i] = ok && !last
			case 2: // post, as the upper layer of a stream
				e.rcv.Receives.Post(n)
				m.used[i] = max(m.used[i]-n, 0)
				m.posted += n
				m.free += n
			case 3: // post, as the owner
				q.Post(n)
				m.posted += n
				m.free += n
			case 4, 5: // arm
				m.limit = n
				m.check()
				q.Arm(n, func() { events++ })
			case 6: // a stream ends; another one takes its place
				e.rcv.Close()
				if open[i] {
					m.free++ // nobody else would post it again
					m.accepted--
				}
				es[i] = newEngine(engineConfig{queue: q, size: 64, quota: e.rcv.Quota(), pool: pool})
				msn[i], m.used[i], open[i] = 0, 0, false
			case 7: // a message far ahead: refused, and takes none
				if e.err == nil && !open[i] {
					e.input(enginetest.FPDU(sendSegment(msn[i]+1000, 0, true, "z")))
					if e.err == nil {
						t.Fatal("an MSN far ahead was accepted")
					}
					e.rcv.Close()
					if m.free > 0 && (i != 2 || m.used[i] < quota) {
						m.free-- // for a moment
						m.check()
						m.free++
					}
				}
			}
			if q.Count() != m.free || events != m.events || m.accepted > m.posted {
				t.Fatalf("%d receives, want %d; %d events, want %d; %d of %d accepted",
					q.Count(), m.free, events, m.events, m.accepted, m.posted)
			}
		}
	})
}

// TestFirstSendTakesReceive: if the first Send may be a ready-to-receive message but is not, it takes a receive like
// any other Send (RFC 6581 Section 9.2).
func TestFirstSendTakesReceive(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   [][]byte
		left int64
		ok   bool
	}{
		{"RTR", [][]byte{sendSegment(1, 0, true, "")}, 1, true},
		{"RTR and a Send", [][]byte{sendSegment(1, 0, true, ""), sendSegment(2, 0, true, "x")}, 0, true},
		{"a Send", [][]byte{sendSegment(1, 0, true, "x")}, 0, true},
		{"two", [][]byte{sendSegment(1, 0, true, "x"), sendSegment(2, 0, true, "x")}, 0, false},
		{"in pieces", [][]byte{sendSegment(1, 0, false, ""), sendSegment(1, 0, true, "")}, 0, true},
		{"empty ones", [][]byte{sendSegment(1, 0, true, ""), sendSegment(2, 0, true, ""), sendSegment(3, 0, true, "")}, 0, false},
	} {
		e := newEngine(engineConfig{recvs: 1})
		e.rcv.AwaitRTR()
		for _, u := range tt.in {
			e.input(enginetest.FPDU(u))
		}
		if (e.err == nil) != tt.ok || e.rcv.Recvs.Load() != tt.left {
			t.Errorf("%s: %v, %d receives left", tt.name, e.err, e.rcv.Recvs.Load())
		}
	}
	e := newEngine(engineConfig{})
	e.rcv.AwaitRTR()
	e.input(enginetest.FPDU(sendSegment(1, 0, true, "x")))
	if pe, ok := errors.AsType[*verbs.ProtocolError](e.err); !ok || pe.Code != enginetest.NoBuffer {
		t.Errorf("a first Send without a receive: %v", e.err)
	}
}

// TestQuotaWindow: receives that a connection may not take are not in its window of MSNs.
func TestQuotaWindow(t *testing.T) {
	for quota, code := range map[int]verbs.TermCode{0: engine.TermCode(1, 2, 3), 1: enginetest.NoBuffer, 9: engine.TermCode(1, 2, 3)} {
		e := newEngine(engineConfig{queue: engine.NewRecvQueue(5), quota: quota})
		e.input(enginetest.FPDU(sendSegment(4, 0, true, "x")))
		if pe, ok := errors.AsType[*verbs.ProtocolError](e.err); !ok || pe.Code != code {
			t.Errorf("quota %d: %v", quota, e.err)
		}
	}
}

// TestLimitEvent: the event occurs once, at once if the limit is reached already, and again after Arm.
func TestLimitEvent(t *testing.T) {
	q := engine.NewRecvQueue(3)
	n := 0
	count := func() { n++ }
	q.Arm(3, count)
	for i, want := range []int{1, 1, 1} {
		if !q.Take() || n != want {
			t.Errorf("receive %d: %d events", i, n)
		}
	}
	if q.Take() {
		t.Error("took a receive although there is none")
	}
	q.Arm(1, count)
	if n != 2 {
		t.Errorf("armed below the limit: %d events", n)
	}
	q.Arm(1, func() { q.Post(10); q.Arm(10, count) })
	if n != 2 || q.Count() != 10 {
		t.Errorf("posted in the event: %d events, %d receives", n, q.Count())
	}
	q.Arm(0, count)
	q.Take()
	if n != 2 {
		t.Error("the event occurred although it was disarmed")
	}
}
