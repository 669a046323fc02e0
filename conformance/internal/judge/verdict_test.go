package judge_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// recording makes a capture of the packets given.
func recording(t *testing.T, link layers.LinkType, packets ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	noErr(t, w.WriteFileHeader(65535, link))
	for _, p := range packets {
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		noErr(t, w.WritePacket(ci, p))
	}
	return out.Bytes()
}

func ether(kind uint16, payload ...byte) []byte {
	return append(append(make([]byte, 12), byte(kind>>8), byte(kind)), payload...)
}

// roceV2 is UDP from port 49152 to 4791 with an empty payload.
func roceV2() []byte {
	ip := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	return ether(0x0800, append(ip, 0xc0, 0, 0x12, 0xb7, 0, 8, 0, 0)...)
}

// TestNothingJudged: captures that hold no iWARP are never clean, and the reason is said; a test fails with them.
func TestNothingJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		capture []byte
		want    string
	}{
		"empty":      {recording(t, layers.LinkTypeEthernet), "the capture holds no packet"},
		"ARP":        {recording(t, layers.LinkTypeEthernet, ether(0x0806, make([]byte, 28)...)), "the capture holds no TCP"},
		"RoCE v1":    {recording(t, layers.LinkTypeEthernet, ether(0x8915, make([]byte, 60)...)), "1 of 1 packets are of RoCE"},
		"RoCE v2":    {recording(t, layers.LinkTypeEthernet, roceV2()), "1 of 1 packets are of RoCE"},
		"InfiniBand": {recording(t, 247, make([]byte, 60)), "1 of 1 packets are of RoCE or InfiniBand"},
		"USB":        {recording(t, 220, make([]byte, 60)), "1 of 1 packets are of link type 220, which is not read"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := judge.File(bytes.NewReader(tt.capture), nil)
			noErr(t, err)
			if v, why := r.Verdict(), strings.Join(r.Reasons(), "\n"); v != judge.Inconclusive || r.Judged() != 0 || !strings.Contains(why, tt.want) {
				t.Errorf("%v, %d judged: %q; want inconclusive, 0 and %q", v, r.Judged(), why, tt.want)
			}
		})
	}
}

// TestPartly: messages of which the capture lacks the past are counted by what is missing.
func TestPartly(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	noErr(t, err)
	server := func(ci *gopacket.CaptureInfo, b []byte, n int) []byte {
		if binary.BigEndian.Uint16(b[34:]) == 20049 { // TCP behind Ethernet and IPv4
			return nil
		}
		return b
	}
	for name, tt := range map[string]struct {
		keep func(ci *gopacket.CaptureInfo, b []byte, n int) []byte
		want judge.Gap
		why  string
	}{
		"truncated": {func(_ *gopacket.CaptureInfo, b []byte, _ int) []byte { return b[:min(len(b), 150)] }, judge.Truncated, "snap length"},
		"one side":  {server, judge.OneSide, "one side"},
		"no start": {func(_ *gopacket.CaptureInfo, b []byte, n int) []byte {
			if n < 100 {
				return nil
			}
			return b
		}, judge.NoStart, "no start"},
		"missing": {func(_ *gopacket.CaptureInfo, b []byte, n int) []byte {
			if n == 98 || n == 99 || n == 100 {
				return nil
			}
			return b
		}, judge.Lost, "octets before them are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := judge.File(bytes.NewReader(filtered(t, pcap, tt.keep)), nil)
			if err != nil || len(r.Connections) != 1 {
				t.Fatal(r, err)
			}
			m := &r.Connections[0].Messages
			if m.Partly[tt.want] == 0 || m.Partly[tt.want]+m.Partly[judge.UnknownSTag] != m.Unjudged() || !strings.Contains(strings.Join(r.Reasons(), "\n"), tt.why) {
				t.Errorf("%+v, want %v; %q", *m, tt.want, r.Reasons())
			}
		})
	}
	r, err := judge.File(bytes.NewReader(pcap), nil)
	noErr(t, err)
	if m := &r.Connections[0].Messages; m.Unjudged() != 0 || m.Judged == 0 {
		t.Errorf("%+v of a whole capture", *m)
	}
}

// TestNoReply: a capture that ends with the MPA Request is not clean.
func TestNoReply(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	noErr(t, err)
	cut := filtered(t, pcap, func(_ *gopacket.CaptureInfo, b []byte, n int) []byte {
		if n > 5 {
			return nil
		}
		return b
	})
	r, err := judge.File(bytes.NewReader(cut), nil)
	noErr(t, err)
	if why := strings.Join(r.Reasons(), "\n"); r.Verdict() != judge.Inconclusive || r.Judged() != 1 || !strings.Contains(why, "no Reply in the capture") {
		t.Errorf("%v, %d judged: %q", r.Verdict(), r.Judged(), why)
	}
}

// TestCutOptions: a packet that the snap length cuts in the options of TCP still says what is missing.
func TestCutOptions(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	noErr(t, err)
	cut := filtered(t, pcap, func(_ *gopacket.CaptureInfo, b []byte, n int) []byte {
		if n > 90 {
			return b[:min(len(b), 60)]
		}
		return b
	})
	r, err := judge.File(bytes.NewReader(cut), nil)
	if why := strings.Join(r.Reasons(), "\n"); err != nil || !strings.Contains(why, "snap length") || r.Stats.TCP != r.Stats.Packets {
		t.Errorf("%v, %d of %d packets, %s", err, r.Stats.TCP, r.Stats.Packets, why)
	}
}

// filtered copies a capture, with what keep leaves of each packet.
func filtered(t *testing.T, pcap []byte, keep func(ci *gopacket.CaptureInfo, b []byte, n int) []byte) []byte {
	t.Helper()
	in, err := pcapgo.NewReader(bytes.NewReader(pcap))
	noErr(t, err)
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	noErr(t, w.WriteFileHeader(65535, in.LinkType()))
	for n := 1; ; n++ {
		b, ci, err := in.ReadPacketData()
		if err != nil {
			return out.Bytes()
		}
		if b = keep(&ci, b, n); b == nil {
			continue
		}
		ci.CaptureLength = len(b)
		noErr(t, w.WritePacket(ci, b))
	}
}

// manyConns is a capture of n connections: a SYN of each, and an MPA Request if there is one.
type manyConns struct {
	n, i    int
	payload string
	buf     []byte
}

func (m *manyConns) Read(b []byte) (int, error) {
	if len(m.buf) == 0 {
		if m.i == m.n {
			return 0, io.EOF
		}
		m.buf = append(m.packet(0, 2, ""), m.packet(1, 24, m.payload)...)
		m.i++
	}
	n := copy(b, m.buf)
	m.buf = m.buf[n:]
	return n, nil
}

func (m *manyConns) packet(seq uint32, flags byte, payload string) []byte {
	p := make([]byte, 16+14+20+20, 16+14+20+20+len(payload))
	binary.LittleEndian.PutUint32(p[8:], uint32(cap(p)-16))
	binary.LittleEndian.PutUint32(p[12:], uint32(cap(p)-16))
	p[16+12] = 8
	ip := p[30:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(40+len(payload)))
	binary.BigEndian.PutUint32(ip[12:], 0x0b000000+uint32(m.i))
	binary.BigEndian.PutUint32(ip[16:], 0x0a000001)
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp, 1000)
	binary.BigEndian.PutUint16(tcp[2:], 20049)
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 0x50, flags
	return append(p, payload...)
}

// TestManyConnections: connections that have ended take no memory but their reports, of which there are so many, and a
// capture with more is not clean.
func TestManyConnections(t *testing.T) {
	var head []byte
	for _, w := range []uint32{0xa1b2c3d4, 4<<16 | 2, 0, 0, 1 << 18, 1} {
		head = binary.LittleEndian.AppendUint32(head, w)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rep, err := judge.File(io.MultiReader(bytes.NewReader(head), &manyConns{n: 150_000, payload: "MPA ID Req Frame\x40\x01\x00\x00" + strings.Repeat("\x00", 1300)}), nil)
	runtime.ReadMemStats(&after)
	if grown := (after.Sys - before.Sys) >> 20; err != nil || grown > 768 {
		t.Errorf("%d MiB, %v", grown, err)
	}
	if len(rep.Connections) != 1<<15 || rep.Beyond != 150_000-1<<15 || rep.Verdict() == judge.Clean || len(rep.Violations) > 1<<15 {
		t.Errorf("%d connections and %d more, %v, %d violations", len(rep.Connections), rep.Beyond, rep.Verdict(), len(rep.Violations))
	}
	if why := rep.Reasons()[0]; !strings.HasPrefix(why, "117232 connections began after 32768 others") {
		t.Error(why)
	}
}

// TestIdleLongest: of too many connections the one that was idle longest is forgotten, and the report says so; the
// others are judged as if it had not been there.
func TestIdleLongest(t *testing.T) {
	const file = "../../testdata/pcaps/f-nfs3-p2p-ops.pcap"
	client := uint16(0)
	as := func(b []byte, n uint16) []byte { // the client's port plus n
		b = bytes.Clone(b)
		ports := b[34:38]
		if client == 0 {
			client = binary.BigEndian.Uint16(ports)
		}
		if binary.BigEndian.Uint16(ports) != client {
			ports = ports[2:]
		}
		binary.BigEndian.PutUint16(ports, client+n)
		return b
	}
	n := 0
	var rest [][]byte
	three := dressed(t, file, func(b []byte) [][]byte {
		n++
		switch rest = append(rest, as(b, 2)); {
		case n < 30:
			return [][]byte{as(b, 0), as(b, 1)}
		case n == 60: // the third begins, in a burst
			return append([][]byte{as(b, 0)}, rest...)
		case n > 60:
			return [][]byte{as(b, 0), as(b, 2)}
		}
		return [][]byte{as(b, 0)}
	})
	r, err := judge.File(bytes.NewReader(three), &judge.Options{Decode: &decode.Options{MaxConns: 2}})
	if err != nil || len(r.Connections) != 3 {
		t.Fatal(r, err)
	}
	for i, c := range r.Connections {
		if whole := c.Info.Unknown == 0 && c.Messages.Unjudged() == 0; whole != (i != 1) {
			t.Errorf("connection %d: %+v, %v", c.Info.ID, c.Messages, c.Info.Unknown)
		}
	}
	if why := strings.Join(r.Reasons(), "\n"); !strings.Contains(why, "connection 2: unknown: what followed: it was idle longest") {
		t.Error(why)
	}
}

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
	noErr(t, err)
	openers := make(map[string]bool)
	for p, err := range decode.Packets(bytes.NewReader(b)) {
		noErr(t, err)
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
