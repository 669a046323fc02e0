package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestTerminates: Terminates about errors of all layers, as RFC 5040 has them and as Linux siw lays them
// out. want is the rule that the Terminate breaks; the initiator's mistake breaks another one.
func TestTerminates(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*Frame) // of the initiator's second Send
		rule  string       // that it breaks
		octet []byte       // the first word
		quote bool         // of that Send's header
		want  string
	}{
		{"CRC", badCRC, "MPA-030", []byte{0x20, 0x02, 0, 0}, false, ""},
		{"CRC, siw", badCRC, "MPA-030", []byte{0x02, 0x02, 0, 0}, false, "RDMAP-059"},
		{"CRC, but it is good", nil, "", []byte{0x20, 0x02, 0, 0}, false, "RDMAP-060"},
		{"CRC, siw, but it is good", nil, "", []byte{0x02, 0x02, 0, 0}, false, "RDMAP-052"},
		{"CRC, with a header", badCRC, "MPA-030", []byte{0x20, 0x02, 0xc0, 0}, true, "RDMAP-055"},
		{"marker, and there are none", nil, "", []byte{0x20, 0x03, 0, 0}, false, "RDMAP-060"},
		{"DDP version", badDV, "DDP-002", []byte{0x12, 0x06, 0xc0, 0}, true, ""},
		{"DDP version, siw", badDV, "DDP-002", []byte{0x21, 0x06, 0, 0}, false, "RDMAP-059"},
		{"DDP version, but it is 1", nil, "", []byte{0x12, 0x06, 0xc0, 0}, true, "RDMAP-060"},
		{"RDMAP version", badRV, "RDMAP-001", []byte{0x02, 0x05, 0xc0, 0}, true, ""},
		{"RDMAP version, siw", badRV, "RDMAP-001", []byte{0x20, 0x05, 0, 0}, false, "RDMAP-059"},
		{"RDMAP version, but it is 1", nil, "", []byte{0x02, 0x05, 0xc0, 0}, true, "RDMAP-060"},
		{"queue", badQN, "DDP-004", []byte{0x12, 0x01, 0xc0, 0}, true, ""},
		{"queue, siw", badQN, "DDP-004", []byte{0x21, 0x01, 0x03, 0}, true, "RDMAP-059"},
		{"tagged error, untagged header", nil, "", []byte{0x11, 0x01, 0xc0, 0}, true, "RDMAP-060"},
		{"MSN", badMSN, "DDP-005", []byte{0x12, 0x03, 0xc0, 0}, true, ""},
		{"MSN, but it is right", nil, "", []byte{0x12, 0x03, 0xc0, 0}, true, "RDMAP-060"},
		{"MO, but it is right", nil, "", []byte{0x12, 0x04, 0xc0, 0}, true, "RDMAP-060"},
		{"opcode, but it is a Send", nil, "", []byte{0x02, 0x06, 0xc0, 0}, true, "RDMAP-060"},
		{"STag cannot be invalidated, but none is", nil, "", []byte{0x02, 0x09, 0xc0, 0}, true, "RDMAP-060"},
		{"no buffer", nil, "", []byte{0x12, 0x02, 0xc0, 0}, true, ""},
		{"invalid STag of a Send", nil, "", []byte{0x01, 0x00, 0xc0, 0}, true, "RDMAP-060"},
		{"local catastrophic", nil, "", []byte{0x00, 0x00, 0, 0}, false, ""},
		{"insufficient IRD, late", nil, "", []byte{0x20, 0x06, 0, 0}, false, "RDMAP-059"},
		{"reserved type", nil, "", []byte{0x16, 0x01, 0, 0}, false, "RDMAP-052"},
	} {
		trace := New().Startup()
		trace.Send(I, octets(20))
		f := trace.Send(I, octets(30))
		if tt.spoil != nil {
			tt.spoil(f)
		}
		payload := tt.octet
		if tt.quote {
			header := f.Seg.Append(nil)
			header[0] = header[0]&^3 | f.Seg.DV
			payload = append(append(payload, 0, 18+30), header...)
		}
		trace.Untagged(R, verbs.OpTerminate, payload)
		var got []string
		for _, v := range judged(trace.Close(), new(twinOf)) {
			got = append(got, v.Rule.ID)
		}
		if tt.rule != "" && (len(got) == 0 || got[0] != tt.rule) {
			t.Errorf("%s: %v, want %s first", tt.name, got, tt.rule)
			continue
		}
		if tt.rule != "" {
			got = got[1:]
		}
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0] != tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.want)
		}
	}
}

func badCRC(f *Frame) { f.BadCRC = true }
func badDV(f *Frame)  { f.Seg.DV = 2 }
func badRV(f *Frame)  { f.Seg.Control = 0x83 }
func badMSN(f *Frame) { f.Seg.MSN += 5 }
func badQN(f *Frame)  { f.Seg.QN = 7 }

// TestTerminatesInDoubt: a Terminate is not judged by what the capture does not show.
func TestTerminatesInDoubt(t *testing.T) {
	badCRC := &verbs.Terminate{Code: verbs.TermCode{Layer: 2, Code: 0x02}}
	shallow := &verbs.Terminate{Code: verbs.TermCode{Layer: 2, Code: 0x06}}
	for _, tt := range []struct {
		name string
		talk func(*Trace)
		want string
	}{
		{"bad CRC in a hole", func(t *Trace) {
			t.Startup()
			t.Send(I, octets(20)).Lost = 48
			t.Terminate(R, badCRC)
		}, ""},
		{"right after the Reply", func(t *Trace) {
			t.Startup()
			t.Terminate(I, shallow)
		}, ""},
		{"not right after the Reply", func(t *Trace) {
			t.Startup()
			t.Send(I, octets(20))
			t.Terminate(I, shallow)
		}, "RDMAP-060"},
		{"the startup is not in the capture", func(t *Trace) {
			t.Middle = true
			for range 4 {
				t.Send(I, octets(20))
			}
			t.Terminate(I, shallow)
		}, ""},
	} {
		trace := New()
		tt.talk(trace)
		got := ""
		for _, v := range judged(trace, new(twinOf)) {
			got += v.Rule.ID
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// paired reports whether one of two rules is that of a receiver who carries on after a breach of the other.
func paired(a, b string) bool { return judge.ReceiverRule[a] == b || judge.ReceiverRule[b] == a }

// acceptTwins are those of receivers. The conversation goes on as if nothing had been wrong.
var acceptTwins = map[string]twinOf{
	"MPA-034":   {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.BadCRC = true })},
	"DDP-014":   {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.DV = 2 })},
	"DDP-015":   {good: every, mutate: the(verbs.OpSend, 1, func(f *Frame) { f.Seg.QN = 4 })},
	"DDP-016":   {good: every, mutate: the(verbs.OpReadRequest, 1, func(f *Frame) { f.Seg.MSN += 7 })},
	"DDP-017":   {good: every, mutate: the(verbs.OpSend, 1, func(f *Frame) { f.Seg.MO += 4096 })},
	"RDMAP-007": {good: every, mutate: the(verbs.OpSend, 0, func(f *Frame) { f.Seg.Control = 0x83 })},
	"RDMAP-042": {good: someNFSGood, mutate: func(t *Trace) {
		f := t.Nth(verbs.OpReadRequest, 0)
		f.Payload[17] ^= 1
	}},
}

func someNFSGood() *Trace { return someNFS(false) }

// TestCarriesOn: whatever frame of a caller is wrong, a responder that answers it, or calls after it, is
// blamed, and so is a caller that answers a wrong Read Request. Nobody is who falls silent.
func TestCarriesOn(t *testing.T) {
	wrong := map[string]func(*Frame){
		"MPA-030":   func(f *Frame) { f.BadCRC = true },
		"DDP-002":   func(f *Frame) { f.Seg.DV = 3 },
		"DDP-004":   func(f *Frame) { f.Seg.QN = 9 },
		"DDP-005":   func(f *Frame) { f.Seg.MSN += 9 },
		"DDP-007":   func(f *Frame) { f.Seg.MO = 1 << 30 },
		"RDMAP-001": func(f *Frame) { f.Seg.Control &^= 0xc0 },
	}
	for id, change := range wrong {
		for n := range 4 { // the callee answers
			s := someNFS(true)
			s.Segment = 0
			f := callOf(s, n)
			change(f)
			wantPair(t, s, id, I)

			s = someNFS(true)
			f = callOf(s, n)
			change(f)
			for i, g := range s.Frames {
				if g == f {
					s.Frames = s.Frames[:i+1]
					break
				}
			}
			if vs := judged(s, new(twinOf)); len(vs) != 1 || vs[0].Rule.ID != id {
				t.Errorf("%s, call %d, and silence: %v", id, n, vs)
			}
		}
	}
	s := NewRPC() // the third call needs the credit that the second reply grants
	for range 3 {
		x := s.Null()
		x.Reply.Header.Credit = 1
		s.Do(x)
	}
	s.Nth(verbs.OpSend, 3).Seg.DV = 3
	wantPair(t, s.Trace, "DDP-002", R)
}

// callOf returns the frame of the n-th call.
func callOf(s *Trace, n int) *Frame {
	for _, f := range s.Frames {
		if f.Startup == nil && f.Dir == I && !f.Seg.Tagged {
			if n--; n < 0 {
				return f
			}
		}
	}
	return nil
}

// wantPair fails unless the sender broke a rule, and the receiver that of carrying on, and nothing else.
func wantPair(t *testing.T, s *Trace, id string, sender decode.Dir) {
	t.Helper()
	vs := judged(s, new(twinOf))
	if len(vs) != 2 || vs[0].Rule.ID != id || vs[0].Dir != sender || vs[1].Rule.ID != judge.ReceiverRule[id] || vs[1].Dir == vs[0].Dir {
		t.Errorf("%v, want %s and %s", vs, id, judge.ReceiverRule[id])
	}
}
