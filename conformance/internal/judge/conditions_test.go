package judge_test

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// packet is a packet of a capture, and what the conditions need to know of its TCP header.
type packet struct {
	decode.Packet
	place  int  // in the good capture
	opener bool // sent by the side that opened the connection
	flags  byte
	size   int // octets of payload
}

// TCP flags.
const (
	flagFIN = 1
	flagSYN = 2
	flagACK = 16
)

// packets returns the packets of a capture of TCP over IPv4 and Ethernet.
func packets(t *testing.T, name string) (all []packet) {
	t.Helper()
	b, err := os.ReadFile("../../testdata/pcaps/" + name)
	if err != nil {
		t.Fatal(err)
	}
	openers := make(map[string]bool)
	for p, err := range decode.Packets(bytes.NewReader(b)) {
		if err != nil {
			t.Fatal(err)
		}
		p.Data = bytes.Clone(p.Data)
		tcp := p.Data[34:]
		q := packet{Packet: p, place: len(all), flags: tcp[13]}
		q.size = int(p.Data[16])<<8 + int(p.Data[17]) - 20 - int(tcp[12]>>4)*4
		if from := string(p.Data[26:30]) + string(tcp[:2]); q.flags&(flagSYN|flagACK) == flagSYN {
			openers[from] = true
		}
		q.opener = openers[string(p.Data[26:30])+string(tcp[:2])]
		all = append(all, q)
	}
	return all
}

// later moves the packets of one side n places back.
func later(all []packet, opener bool, n int) []packet {
	at := func(p packet) int {
		if p.opener == opener {
			return p.place + n
		}
		return p.place
	}
	slices.SortStableFunc(all, func(a, b packet) int { return cmp.Compare(at(a), at(b)) })
	return all
}

// conditions are what may be wrong with the capture of a connection that breaks no rule. They may change the
// slice.
var conditions = []struct {
	name  string
	lacks bool // the capture lacks something, and the report must say so
	make  func(all []packet) []packet
}{
	{"one side: the opener", true, func(all []packet) []packet {
		return slices.DeleteFunc(all, func(p packet) bool { return !p.opener })
	}},
	{"one side: the accepter", true, func(all []packet) []packet {
		return slices.DeleteFunc(all, func(p packet) bool { return p.opener })
	}},
	{"one side, without a beginning", true, func(all []packet) []packet {
		return slices.DeleteFunc(all[len(all)/3:], func(p packet) bool { return p.opener })
	}},
	{"a packet in ten of the opener lost", true, func(all []packet) []packet {
		return slices.DeleteFunc(all, func(p packet) bool { return p.opener && p.place%10 == 3 })
	}},
	{"a packet in ten of the accepter lost", true, func(all []packet) []packet {
		return slices.DeleteFunc(all, func(p packet) bool { return !p.opener && p.place%10 == 5 })
	}},
	{"the opener's SYN and first octets lost", true, func(all []packet) []packet {
		return slices.DeleteFunc(all, func(p packet) bool { return p.opener && p.place < 6 && (p.flags&flagSYN != 0 || p.size > 0) })
	}},
	{"cut to 300 octets", true, func(all []packet) []packet {
		for i := range all {
			all[i].Data = all[i].Data[:min(len(all[i].Data), 300)]
		}
		return all
	}},
	{"without SYN, from the first reply on", true, func(all []packet) []packet { return all[12:] }},
	{"a SYN after the octets that follow it", false, func(all []packet) []packet {
		all[0], all[3] = all[3], all[0]
		return all
	}},
	{"the opener's packets late", false, func(all []packet) []packet { return later(all, true, 5) }},
	{"the accepter's packets late", false, func(all []packet) []packet { return later(all, false, 5) }},
	{"every packet twice", false, func(all []packet) []packet {
		return slices.Concat(all, later(slices.Clone(all), true, 0))
	}},
}

// TestConditions: whatever the quality of a capture, nobody is accused of what it lacks, and the report says
// that it does.
func TestConditions(t *testing.T) {
	for _, name := range []string{"a-rping.pcap", "c-nfs41.pcap", "c-nfs42-xattr.pcap", "f-nfs3-crc-ops.pcap"} {
		all := packets(t, name)
		good := make(map[string]bool)
		whole := judgedPackets(all)
		for _, v := range whole.Violations {
			good[v.Rule.ID+v.Detail] = true
		}
		for _, c := range conditions {
			r := judgedPackets(c.make(slices.Clone(all)))
			for _, v := range r.Violations {
				if !good[v.Rule.ID+v.Detail] {
					t.Errorf("%s, %s: %v", name, c.name, v)
				}
			}
			if n := len(r.Connections); n == 0 || !c.lacks && n != len(whole.Connections) || c.lacks && !slices.ContainsFunc(r.Connections, func(c *judge.ConnReport) bool { return len(c.Unknown) > 0 }) {
				t.Errorf("%s, %s: %d connections, or nothing is said to be missing", name, c.name, n)
			}
		}
	}
}

// judgedPackets judges packets, which it numbers.
func judgedPackets(all []packet) *judge.Report {
	b := judge.NewBuilder(nil)
	c := decode.NewCapture(nil, b.Event)
	for i := range all {
		p := all[i].Packet
		p.Frame = i + 1
		c.Packet(&p)
	}
	c.Finish()
	return b.Report()
}
