package decode_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// relink rewrites the packets of a capture: as pcapng or pcap, with another link type. strip turns an
// Ethernet packet into one of that link type, or nil to leave it out.
func relink(t *testing.T, file string, ng bool, link layers.LinkType, strip func([]byte) []byte) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	var write func(gopacket.CaptureInfo, []byte) error
	if ng {
		w, err := pcapgo.NewNgWriter(&out, link)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Flush() }()
		write = func(ci gopacket.CaptureInfo, b []byte) error {
			if err := w.WritePacket(ci, b); err != nil {
				return err
			}
			return w.Flush()
		}
	} else {
		w := pcapgo.NewWriter(&out)
		if err := w.WriteFileHeader(262144, link); err != nil {
			t.Fatal(err)
		}
		write = w.WritePacket
	}
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			t.Fatal(err)
		}
		b := strip(bytes.Clone(pkt.Data))
		if b == nil {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(b), Length: len(b)}
		if err := write(ci, b); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// countEvents counts the events of a capture in memory.
func countEvents(t *testing.T, b []byte) decode.Counts {
	t.Helper()
	c := make(decode.Counts)
	for ev, err := range decode.Events(bytes.NewReader(b), nil) {
		if err != nil {
			t.Fatal(err)
		}
		c.Add(ev)
	}
	return c
}

// TestLinkTypes: the same packets with other link headers, and in the other file format, say the same.
func TestLinkTypes(t *testing.T) {
	const file = pcapDir + "/b-nfs3-ops.pcap"
	want := make(decode.Counts)
	decodeFile(t, file, want.Add)
	prepend := func(head ...byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(head, b[14:]...) }
	}
	same := func(b []byte) []byte { return b }
	sll := make([]byte, 16)
	sll[14], sll[15] = 0x08, 0x00
	sll2 := make([]byte, 20)
	sll2[0], sll2[1] = 0x08, 0x00
	for _, tt := range []struct {
		name  string
		ng    bool
		link  layers.LinkType
		strip func([]byte) []byte
	}{
		{"pcapng", true, layers.LinkTypeEthernet, same},
		{"802.1Q", false, layers.LinkTypeEthernet, func(b []byte) []byte {
			return append(append(bytes.Clone(b[:12]), 0x81, 0, 0, 7), b[12:]...)
		}},
		{"loopback, little-endian", false, layers.LinkTypeNull, prepend(2, 0, 0, 0)},
		{"loopback, big-endian", true, layers.LinkTypeLoop, prepend(0, 0, 0, 2)},
		{"Linux cooked", false, layers.LinkTypeLinuxSLL, prepend(sll...)},
		{"Linux cooked 2", true, layers.LinkTypeLinuxSLL2, prepend(sll2...)},
		{"raw", false, layers.LinkTypeRaw, prepend()},
		{"PPP", false, layers.LinkTypePPP, prepend(0, 0x21)},
		{"PPP, framed", true, layers.LinkTypePPP_HDLC, prepend(0xff, 0x03, 0, 0x21)},
		{"Cisco HDLC", false, layers.LinkTypeC_HDLC, prepend(0x0f, 0, 8, 0)},
		{"IPv4", true, layers.LinkTypeIPv4, prepend()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := countEvents(t, relink(t, file, tt.ng, tt.link, tt.strip))
			for _, k := range want.Keys() {
				if got[k] != want[k] {
					t.Errorf("%s: %d, want %d", k, got[k], want[k])
				}
			}
		})
	}
}

// TestOutOfOrderCapture: every third packet captured one place late, every fifth twice.
func TestOutOfOrderCapture(t *testing.T) {
	const file = pcapDir + "/a-rping.pcap"
	want := make(decode.Counts)
	decodeFile(t, file, want.Add)
	var pkts []decode.Packet
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			t.Fatal(err)
		}
		pkt.Data = bytes.Clone(pkt.Data)
		pkts = append(pkts, pkt)
		if len(pkts)%5 == 0 {
			pkts = append(pkts, pkt)
		}
	}
	got := make(decode.Counts)
	c := decode.NewCapture(nil, got.Add)
	for i := range pkts {
		j := i
		if i%3 == 1 && i+1 < len(pkts) {
			j = i + 1
		} else if i%3 == 2 {
			j = i - 1
		}
		pkts[j].Frame = i + 1
		c.Packet(&pkts[j])
	}
	c.Finish()
	for _, k := range want.Keys() {
		if got[k] != want[k] {
			t.Errorf("%s: %d, want %d", k, got[k], want[k])
		}
	}
	if got["error"]+got["undecoded"] != 0 {
		t.Errorf("%v", got)
	}
}

func TestNotCapture(t *testing.T) {
	for _, b := range []string{"", "abc", "#!/bin/sh\necho no capture", "\x0a\x0d\x0d\x0a", "\xd4\xc3\xb2\xa1"} {
		n := 0
		for ev, err := range decode.Events(bytes.NewReader([]byte(b)), nil) {
			n++
			if ev != nil || !errors.Is(err, decode.ErrNotCapture) {
				t.Errorf("%q: %v, %v", b, ev, err)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d pairs", b, n)
		}
	}
}

// TestGzip: pcap and pcapng may be compressed, also in several members.
func TestGzip(t *testing.T) {
	b, err := os.ReadFile(pcapDir + "/d-reject.pcap")
	if err != nil {
		t.Fatal(err)
	}
	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range decode.Packets(bytes.NewReader(b)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: p.Time, Length: p.Len, CaptureLength: len(p.Data)}, p.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{"pcap": b, "pcapng": ng.Bytes()} {
		var z bytes.Buffer
		for _, part := range [][]byte{file[:3], file[3:]} {
			w := gzip.NewWriter(&z)
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := countEvents(t, z.Bytes()); got["mpa.rep"] != 1 {
			t.Errorf("%s: %v", name, got)
		}
		for pair, err := range decode.Packets(bytes.NewReader(z.Bytes()[:20])) {
			if err == nil {
				t.Errorf("%s, cut: %v", name, pair)
			}
		}
	}
}

// TestStop: a loop that ends early gets no further event.
func TestStop(t *testing.T) {
	b, err := os.ReadFile(pcapDir + "/a-rping.pcap")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range decode.Events(bytes.NewReader(b), nil) {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Error(n)
	}
}

// TestSnapLength: packets cut by the capture end the decoding of their direction, and say so.
func TestSnapLength(t *testing.T) {
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	if err := w.WriteFileHeader(100, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pcapDir + "/b-nfs3-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for pkt, err := range decode.Packets(f) {
		if err != nil {
			t.Fatal(err)
		}
		b := pkt.Data[:min(len(pkt.Data), 100)]
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(b), Length: len(pkt.Data)}, b); err != nil {
			t.Fatal(err)
		}
	}
	holes := 0
	for ev, err := range decode.Events(&out, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Missing > 0 && !errors.Is(ev.Err, decode.ErrHole) {
			t.Error(ev)
		}
		if ev.Missing > 0 {
			holes++
		}
	}
	if holes == 0 {
		t.Error("no hole was reported")
	}
}

// TestOldPcap: what programs before 2.4 and devices have written is read as libpcap reads it.
func TestOldPcap(t *testing.T) {
	const file = pcapDir + "/b-nfs3-ops.pcap"
	want := make(decode.Counts)
	decodeFile(t, file, want.Add)
	plain := relink(t, file, false, layers.LinkTypeEthernet, func(b []byte) []byte { return b })
	// rewrite makes a file of another order, magic and minor version, with a record head of edit(captured, whole).
	rewrite := func(o binary.AppendByteOrder, magic uint32, minor uint16, edit func(n, whole uint32) []uint32) []byte {
		out := o.AppendUint16(o.AppendUint16(o.AppendUint32(nil, magic), 2), minor)
		for _, v := range []uint32{0, 0, 65535, 1 | 0x5400_0000} { // with a check sequence of 4 octets
			out = o.AppendUint32(out, v)
		}
		for in := plain[24:]; len(in) > 0; {
			n := binary.LittleEndian.Uint32(in[8:])
			out = o.AppendUint32(o.AppendUint32(out, binary.LittleEndian.Uint32(in)), binary.LittleEndian.Uint32(in[4:]))
			for _, v := range edit(n, n) {
				out = o.AppendUint32(out, v)
			}
			out, in = append(out, in[16:16+n]...), in[16+n:]
		}
		return out
	}
	same := func(n, whole uint32) []uint32 { return []uint32{n, whole} }
	for name, b := range map[string][]byte{
		"2.4, big":       rewrite(binary.BigEndian, 0xa1b2c3d4, 4, same),
		"2.3":            rewrite(binary.LittleEndian, 0xa1b2c3d4, 3, same),
		"2.3, swapped":   rewrite(binary.LittleEndian, 0xa1b2c3d4, 3, func(n, whole uint32) []uint32 { return []uint32{whole + 4, n} }),
		"2.2":            rewrite(binary.BigEndian, 0xa1b2c3d4, 2, func(n, whole uint32) []uint32 { return []uint32{whole + 4, n} }),
		"2.0":            rewrite(binary.LittleEndian, 0xa1b2c3d4, 0, func(n, whole uint32) []uint32 { return []uint32{whole, n} }),
		"longer":         rewrite(binary.LittleEndian, 0xa1b2c3d4, 4, func(n, whole uint32) []uint32 { return []uint32{n, whole - 4} }),
		"nanoseconds":    rewrite(binary.BigEndian, 0xa1b23c4d, 4, same),
		"modified":       rewrite(binary.LittleEndian, 0xa1b2cd34, 4, func(n, whole uint32) []uint32 { return []uint32{n, whole, 7, 8} }),
		"modified, big ": rewrite(binary.BigEndian, 0xa1b2cd34, 4, func(n, whole uint32) []uint32 { return []uint32{n, whole, 7, 8} }),
	} {
		if got := countEvents(t, b); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for what, b := range map[string][]byte{
		"unpack it with xz -d FILE":             []byte("\xfd7zXZ\x00rest"),
		"unpack it with bzip2 -d FILE":          []byte("BZh91AY&SY"),
		"unpack it with zstd -d FILE":           []byte("\x28\xb5\x2f\xfdrest"),
		"unpack it with lz4 -d FILE":            []byte("\x04\x22\x4d\x18rest"),
		"pcap of version 2.5, want 2.0 to 2.4":  rewrite(binary.BigEndian, 0xa1b2c3d4, 5, same),
		"it begins with 41 42 43 44":            []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
		"packet 1: damaged file: a record of 4": rewrite(binary.BigEndian, 0xa1b2c3d4, 4, func(_, _ uint32) []uint32 { return []uint32{1<<32 - 1, 0} }),
	} {
		var err error
		for _, e := range decode.Packets(bytes.NewReader(b)) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
}
