package decode_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
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
	must(t, err)
	defer f.Close()
	var out bytes.Buffer
	var write func(gopacket.CaptureInfo, []byte) error
	if ng {
		w, err := pcapgo.NewNgWriter(&out, link)
		must(t, err)
		defer func() { _ = w.Flush() }()
		write = func(ci gopacket.CaptureInfo, b []byte) error {
			if err := w.WritePacket(ci, b); err != nil {
				return err
			}
			return w.Flush()
		}
	} else {
		w := pcapgo.NewWriter(&out)
		must(t, w.WriteFileHeader(262144, link))
		write = w.WritePacket
	}
	for pkt, err := range decode.Packets(f) {
		must(t, err)
		b := strip(bytes.Clone(pkt.Data))
		if b == nil {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(b), Length: len(b)}
		must(t, write(ci, b))
	}
	return out.Bytes()
}

// countEvents counts the events of a capture in memory.
func countEvents(t *testing.T, b []byte) decode.Counts {
	t.Helper()
	c := make(decode.Counts)
	for ev, err := range decode.Events(bytes.NewReader(b), nil) {
		must(t, err)
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
	must(t, err)
	var ng bytes.Buffer
	w, err := pcapgo.NewNgWriter(&ng, layers.LinkTypeEthernet)
	must(t, err)
	for p, err := range decode.Packets(bytes.NewReader(b)) {
		must(t, err)
		must(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: p.Time, Length: p.Len, CaptureLength: len(p.Data)}, p.Data))
	}
	must(t, w.Flush())
	for name, file := range map[string][]byte{"pcap": b, "pcapng": ng.Bytes()} {
		var z bytes.Buffer
		for _, part := range [][]byte{file[:3], file[3:]} {
			w := gzip.NewWriter(&z)
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			must(t, w.Close())
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
	must(t, err)
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
	must(t, w.WriteFileHeader(100, layers.LinkTypeEthernet))
	f, err := os.Open(pcapDir + "/b-nfs3-ops.pcap")
	must(t, err)
	defer f.Close()
	for pkt, err := range decode.Packets(f) {
		must(t, err)
		b := pkt.Data[:min(len(pkt.Data), 100)]
		must(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(b), Length: len(pkt.Data)}, b))
	}
	holes := 0
	for ev, err := range decode.Events(&out, nil) {
		must(t, err)
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

// block returns a block of a pcapng file.
func block(kind uint32, body ...byte) []byte {
	n := uint32(len(body) + 12)
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = append(binary.LittleEndian.AppendUint32(b, n), body...)
	return binary.LittleEndian.AppendUint32(b, n)
}

// words returns numbers as octets.
func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

var (
	section  = block(0x0a0d0d0a, words(0x1a2b3c4d, 1, ^uint32(0), ^uint32(0))...)
	ethernet = block(1, words(1, 0)...)
)

// packet is an Enhanced Packet Block.
func packet(captured, wire uint32, data ...byte) []byte {
	return block(6, append(words(0, 0, 1, captured, wire), data...)...)
}

// TestLyingLengths: a length that lies is an error of the file. It hides no packet, and it takes no memory.
func TestLyingLengths(t *testing.T) {
	good := packet(4, 4, 1, 2, 3, 4)
	pcap := words(0xa1b2c3d4, 4<<16|2, 0, 0, ^uint32(0), 1)
	tests := map[string]struct {
		file []byte
		want int // packets before the error
	}{
		"a pcap packet of 3.5 GiB":       {append(pcap, words(1, 1, 0xe0000000, 0xe0000000)...), 0},
		"a pcapng packet of 3.5 GiB":     {slice(section, ethernet, good, words(6, 0xe0000020, 0, 0, 1, 0xe0000000, 0xe0000000)), 1},
		"more captured than there is":    {slice(section, ethernet, good, packet(60, 60, 1, 2, 3, 4), good), 1},
		"more captured than on the wire": {slice(section, ethernet, good, packet(4, 3, 1, 2, 3, 4), good), 1},
		"a block of no octets":           {slice(section, ethernet, good, words(99, 0), good), 1},
		"two lengths":                    {slice(section, ethernet, good, good[:len(good)-4], words(4), good), 1},
		"an option hides packets":        {slice(section, block(1, append(words(1, 0), words(2|200<<16)...)...), good, good, good, good, good), 0},
		"options of the section":         {slice(block(0x0a0d0d0a, words(0x1a2b3c4d, 1, 0, 0, 2|200<<16)...), ethernet, good, good, good, good, good), 5},
		"no interface":                   {slice(section, good), 0},
		"interfaces without end":         {slice(section, bytes.Repeat(ethernet, 1<<17)), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var last error
			got := 0
			peak := grown(func() {
				for _, err := range decode.Packets(io.MultiReader(bytes.NewReader(tt.file), io.LimitReader(zeros{}, 1<<28))) {
					if last = err; err == nil {
						got++
					}
				}
			})
			if last == nil || errors.Is(last, io.ErrUnexpectedEOF) || got != tt.want || peak > 64<<20 {
				t.Errorf("%d packets, error %v, %d octets; want %d packets and an error", got, last, peak, tt.want)
			}
		})
	}
}

// TestBlocksNotRead: what is not about packets takes no memory: names of hosts, secrets, names of interfaces.
func TestBlocksNotRead(t *testing.T) {
	name := slice(words(1, 0), words(2|60000<<16), []byte(strings.Repeat("n", 60000)))
	for what, b := range map[string][]byte{
		"hosts":      block(4, slice(bytes.Repeat(slice(words(1|12<<16), []byte("\x0a\x00\x00\x01host.ab\x00")), 4000), words(0))...),
		"secrets":    block(10, slice(words(0x544c534b, 60000), make([]byte, 60000))...),
		"interfaces": block(1, name...),
	} {
		t.Run(what, func(t *testing.T) {
			got := 0
			peak := grown(func() {
				r := []io.Reader{bytes.NewReader(slice(section, ethernet))}
				for range 2000 {
					r = append(r, bytes.NewReader(b))
				}
				for _, err := range decode.Packets(io.MultiReader(append(r, bytes.NewReader(packet(4, 4, 1, 2, 3, 4)))...)) {
					must(t, err)
					runtime.GC()
					got++
				}
			})
			if got != 1 || peak > 16<<20 {
				t.Errorf("%d packets, %d octets", got, peak)
			}
		})
	}
}

func slice(all ...[]byte) []byte { return bytes.Join(all, nil) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// grown returns how many octets of memory the process has taken from the system for f.
func grown(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Sys - before.Sys
}

const (
	pcapDir    = "../../testdata/pcaps"
	countsFile = "../../testdata/tshark-counts.tsv"
	exceptions = "../../testdata/tshark-exceptions.tsv"
)

// captures returns the paths of the captures in testdata.
func captures(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(pcapDir, "*.pcap"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no captures: %v", err)
	}
	return files
}

// decodeFile calls visit for every event of a capture.
func decodeFile(tb testing.TB, file string, visit func(*decode.Event)) {
	tb.Helper()
	f, err := os.Open(file)
	must(tb, err)
	defer f.Close()
	for ev, err := range decode.Events(bufio.NewReader(f), nil) {
		if err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		visit(ev)
	}
}

// row is a line of a table: capture, key, numbers, and in the exceptions a reason.
type row struct{ capture, key string }

// readTable reads a tab-separated table; lines that begin with # are comments.
func readTable(t *testing.T, name string, columns int) map[row][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	table := make(map[row][]string)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != columns {
			t.Fatalf("%s: %d columns, want %d: %q", name, len(f), columns, line)
		}
		r := row{f[0], f[1]}
		if table[r] != nil {
			t.Fatalf("%s: twice: %v", name, r)
		}
		table[r] = f[2:]
	}
	return table
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

// TestCountsAgreeWithTshark compares what the decoder finds in every capture with what tshark finds. A
// difference must be in the table of exceptions, with both numbers and the reason; an obsolete exception
// fails too.
func TestCountsAgreeWithTshark(t *testing.T) {
	theirs, except := readTable(t, countsFile, 3), readTable(t, exceptions, 5)
	for _, file := range captures(t) {
		name := filepath.Base(file)
		ours := make(decode.Counts)
		decodeFile(t, file, ours.Add)
		keys := ours.Keys()
		for r := range maps.Keys(theirs) {
			if r.capture == name {
				keys = append(keys, r.key)
			}
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if key == "error" || key == "undecoded" || key == "crc.bad" {
				continue // not counted by tshark; see TestNothingUndecoded
			}
			r := row{name, key}
			want := 0
			if c := theirs[r]; c != nil {
				want = number(t, c[0])
			}
			e := except[r]
			delete(except, r)
			switch {
			case e == nil && ours[key] != want:
				t.Errorf("%s %s: %d, tshark finds %d", name, key, ours[key], want)
			case e != nil && (number(t, e[0]) != want || number(t, e[1]) != ours[key] || want == ours[key]):
				t.Errorf("%s %s: %d, tshark finds %d; the exception says %s and %s", name, key, ours[key], want, e[1], e[0])
			}
		}
	}
	for r := range except {
		t.Errorf("exception for nothing: %v", r)
	}
}
