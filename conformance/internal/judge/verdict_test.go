package judge_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// recording makes a capture of the packets given.
func recording(t *testing.T, link layers.LinkType, packets ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	if err := w.WriteFileHeader(65535, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		if err := w.WritePacket(ci, p); err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Fatal(err)
			}
			if v, why := r.Verdict(), strings.Join(r.Reasons(), "\n"); v != judge.Inconclusive || r.Judged() != 0 || !strings.Contains(why, tt.want) {
				t.Errorf("%v, %d judged: %q; want inconclusive, 0 and %q", v, r.Judged(), why, tt.want)
			}
		})
	}
}

// TestPartly: messages of which the capture lacks the past are counted by what is missing.
func TestPartly(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if m := &r.Connections[0].Messages; m.Unjudged() != 0 || m.Judged == 0 {
		t.Errorf("%+v of a whole capture", *m)
	}
}

// TestNoReply: a capture that ends with the MPA Request is not clean.
func TestNoReply(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
	cut := filtered(t, pcap, func(_ *gopacket.CaptureInfo, b []byte, n int) []byte {
		if n > 5 {
			return nil
		}
		return b
	})
	r, err := judge.File(bytes.NewReader(cut), nil)
	if err != nil {
		t.Fatal(err)
	}
	if why := strings.Join(r.Reasons(), "\n"); r.Verdict() != judge.Inconclusive || r.Judged() != 1 || !strings.Contains(why, "no Reply in the capture") {
		t.Errorf("%v, %d judged: %q", r.Verdict(), r.Judged(), why)
	}
}

// TestCutOptions: a packet that the snap length cuts in the options of TCP still says what is missing.
func TestCutOptions(t *testing.T) {
	pcap, err := os.ReadFile("../../testdata/pcaps/b-nfs3-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	if err := w.WriteFileHeader(65535, in.LinkType()); err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		b, ci, err := in.ReadPacketData()
		if err != nil {
			return out.Bytes()
		}
		if b = keep(&ci, b, n); b == nil {
			continue
		}
		ci.CaptureLength = len(b)
		if err := w.WritePacket(ci, b); err != nil {
			t.Fatal(err)
		}
	}
}
