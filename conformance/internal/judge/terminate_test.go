package judge_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestTerminates: Terminates about errors of all layers, as RFC 5040 has them and as Linux siw lays them
// out. want is the rule that the Terminate breaks; the initiator's mistake breaks another one.
func TestTerminates(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*twin.Frame) // of the initiator's second Send
		rule  string            // that it breaks
		octet []byte            // the first word
		quote bool              // of that Send's header
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
		trace := twin.New().Startup()
		trace.Send(twin.I, octets(20))
		f := trace.Send(twin.I, octets(30))
		if tt.spoil != nil {
			tt.spoil(f)
		}
		payload := tt.octet
		if tt.quote {
			header := f.Seg.Append(nil)
			header[0] = header[0]&^3 | f.Seg.DV
			payload = append(append(payload, 0, 18+30), header...)
		}
		trace.Untagged(twin.R, verbs.OpTerminate, payload)
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

func badCRC(f *twin.Frame) { f.BadCRC = true }
func badDV(f *twin.Frame)  { f.Seg.DV = 2 }
func badRV(f *twin.Frame)  { f.Seg.Control = 0x83 }
func badMSN(f *twin.Frame) { f.Seg.MSN += 5 }
func badQN(f *twin.Frame)  { f.Seg.QN = 7 }

// TestTerminatesInDoubt: a Terminate is not judged by what the capture does not show.
func TestTerminatesInDoubt(t *testing.T) {
	badCRC := &verbs.Terminate{Code: verbs.TermCode{Layer: 2, Code: 0x02}}
	shallow := &verbs.Terminate{Code: verbs.TermCode{Layer: 2, Code: 0x06}}
	for _, tt := range []struct {
		name string
		talk func(*twin.Trace)
		want string
	}{
		{"bad CRC in a hole", func(t *twin.Trace) {
			t.Startup()
			t.Send(twin.I, octets(20)).Lost = 48
			t.Terminate(twin.R, badCRC)
		}, ""},
		{"right after the Reply", func(t *twin.Trace) {
			t.Startup()
			t.Terminate(twin.I, shallow)
		}, ""},
		{"not right after the Reply", func(t *twin.Trace) {
			t.Startup()
			t.Send(twin.I, octets(20))
			t.Terminate(twin.I, shallow)
		}, "RDMAP-060"},
		{"the startup is not in the capture", func(t *twin.Trace) {
			t.Middle = true
			for range 4 {
				t.Send(twin.I, octets(20))
			}
			t.Terminate(twin.I, shallow)
		}, ""},
	} {
		trace := twin.New()
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
