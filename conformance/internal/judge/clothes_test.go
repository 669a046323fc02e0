package judge_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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

// join puts octets, uint16s and strings behind each other.
func join(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint16(b, uint16(p))
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// inIP wraps b in a datagram of IPv4 or IPv6.
func inIP(version, proto int, b []byte) []byte {
	if version == 6 {
		return join("\x60\x00\x00\x00", len(b), []byte{byte(proto)}, "\x40", strings.Repeat("\x20\x01\x0d\xb8", 8), b)
	}
	head := join("\x45\x00", len(b)+20, 1, 0, "\x40", []byte{byte(proto)}, 0, "\xc0\x00\x02\x01\xc0\x00\x02\x02")
	sum := 0
	for i := 0; i < 20; i += 2 {
		sum += int(binary.BigEndian.Uint16(head[i:]))
	}
	binary.BigEndian.PutUint16(head[10:], ^uint16(sum+sum>>16))
	return join(head, b)
}

func inUDP(port int, b []byte) []byte { return inIP(4, 17, join(40000, port, len(b)+8, 0, b)) }

// one makes a dressing of one packet for one: f takes a frame, and what is behind its Ethernet header.
func one(f func(frame, ip []byte) []byte) func([]byte) [][]byte {
	return func(b []byte) [][]byte { return [][]byte{f(b, b[14:])} }
}

// ether6 makes an IPv6 packet of an IPv4 frame, with the extension headers given between IP and TCP.
func ether6(b []byte, next byte, extensions []byte) []byte {
	ip := b[14:][:binary.BigEndian.Uint16(b[16:])]
	addr := func(a []byte) []byte { return join(strings.Repeat("\x00", 10), "\x20\x01", a) }
	tcp := ip[int(ip[0]&15)*4:]
	return join(b[:12], 0x86dd, "\x60\x00\x00\x00", len(extensions)+len(tcp), []byte{next, 64}, addr(ip[12:16]), addr(ip[16:20]), extensions, tcp)
}

var packetID int

// inFragments cuts an IPv4 frame into fragments of n octets at most.
func inFragments(b []byte, n int) (all [][]byte) {
	ip := b[14:][:binary.BigEndian.Uint16(b[16:])]
	head := int(ip[0]&15) * 4
	packetID++
	for at, rest := 0, ip[head:]; len(rest) > 0; at += n {
		k, flags := min(n, len(rest)), 0x2000
		if k == len(rest) {
			flags = 0
		}
		h := bytes.Clone(ip[:head])
		copy(h[2:], join(head+k, packetID, flags|at/8))
		all = append(all, join(b[:14], h, rest[:k]))
		rest = rest[k:]
	}
	return all
}

// inFragments6 does the same, and makes an IPv6 packet.
func inFragments6(b []byte, n int) (all [][]byte) {
	packetID++
	tcp := ether6(b, 6, nil)[54:]
	for at, rest := 0, tcp; len(rest) > 0; at += n {
		k, more := min(n, len(rest)), 1
		if k == len(rest) {
			more = 0
		}
		ip := ether6(b, 44, join(0x0600, at|more, 7, packetID))
		ip = ip[:62]
		copy(ip[18:], join(8+k))
		all = append(all, join(ip, rest[:k]))
		rest = rest[k:]
	}
	return all
}

// clothes are what a packet of Ethernet and IPv4 may be captured in.
var clothes = map[string]func(frame []byte) [][]byte{
	"802.1ad":            one(func(b, _ []byte) []byte { return join(b[:12], 0x88a8, 7, 0x8100, 8, b[12:]) }),
	"QinQ 0x9100":        one(func(b, _ []byte) []byte { return join(b[:12], 0x9100, 7, 0x9100, 8, 0x8100, 9, b[12:]) }),
	"MPLS":               one(func(b, ip []byte) []byte { return join(b[:12], 0x8847, 1, 0x0040, 2, 0x0140, ip) }),
	"MPLS, multicast":    one(func(b, ip []byte) []byte { return join(b[:12], 0x8848, 1, 0x0140, ip) }),
	"MPLS, pseudowire":   one(func(b, _ []byte) []byte { return join(b[:12], 0x8847, 1, 0x1140, 0, 0, b) }),
	"MPLS, bare frame":   one(func(b, _ []byte) []byte { return join(b[:12], 0x8847, 1, 0x2140, "\x02\x00\x00", b[3:]) }),
	"PPPoE":              one(func(b, ip []byte) []byte { return join(b[:12], 0x8864, 0x1100, 5, len(ip)+2, 0x21, ip) }),
	"GRE":                one(func(b, ip []byte) []byte { return join(b[:14], inIP(4, 47, join(0, 0x0800, ip))) }),
	"GRE, key, number":   one(func(b, ip []byte) []byte { return join(b[:14], inIP(4, 47, join(0x3000, 0x0800, 0, 9, 0, 4, ip))) }),
	"GRE, sum, Ethernet": one(func(b, _ []byte) []byte { return join(b[:14], inIP(4, 47, join(0x8000, 0x6558, 0, 0, b))) }),
	"GRE over IPv6":      one(func(b, ip []byte) []byte { return join(b[:12], 0x86dd, inIP(6, 47, join(0, 0x0800, ip))) }),
	"IP in IP":           one(func(b, ip []byte) []byte { return join(b[:14], inIP(4, 4, ip)) }),
	"VXLAN":              one(func(b, _ []byte) []byte { return join(b[:14], inUDP(4789, join(0x0800, 0, 0, 0x0900, b))) }),
	"Geneve":             one(func(b, _ []byte) []byte { return join(b[:14], inUDP(6081, join(0, 0x6558, 0, 0x0900, b))) }),
	"Geneve, options, IP": one(func(b, ip []byte) []byte {
		return join(b[:14], inUDP(6081, join(0x0200, 0x0800, 0, 0x0900, 1, 0x0101, 0, 0, ip)))
	}),
	"VXLAN in VLAN in GRE": one(func(b, _ []byte) []byte {
		return join(b[:14], inIP(4, 47, join(0, 0x6558, b[:12], 0x8100, 3, 0x0800, inUDP(4789, join(0x0800, 0, 0, 0x0900, b)))))
	}),
	"LLC": one(func(b, ip []byte) []byte {
		if len(ip)+8 > 1500 { // no length of IEEE 802.3
			return b
		}
		return join(b[:12], len(ip)+8, "\xaa\xaa\x03\x00\x00\x00", 0x0800, ip)
	}),
	"VXLAN-GPE":            one(func(b, ip []byte) []byte { return join(b[:14], inUDP(4790, join(0x0c00, 1, 0, 0x0900, ip))) }),
	"VXLAN-GPE, Ethernet":  one(func(b, _ []byte) []byte { return join(b[:14], inUDP(4790, join(0x0c00, 3, 0, 0x0900, b))) }),
	"IPv6":                 one(func(b, _ []byte) []byte { return ether6(b, 6, nil) }),
	"IPv6, extensions":     one(func(b, _ []byte) []byte { return ether6(b, 0, join(0x3c00, 0x0104, 0, 0, 0x0600, 0x0104, 0, 0)) }),
	"IPv6, whole fragment": one(func(b, _ []byte) []byte { return ether6(b, 44, join(0x0600, 0, 0, 77)) }),
	"fragments":            func(b []byte) [][]byte { return inFragments(b, 256) },
	"small fragments":      func(b []byte) [][]byte { return inFragments(b, 8) },
	"fragments, last first": func(b []byte) [][]byte {
		all := inFragments(b, 512)
		slices.Reverse(all)
		return all
	},
	"fragments, twice": func(b []byte) [][]byte {
		all := inFragments(b, 504)
		return append(slices.Clone(all[:len(all)-1]), all...)
	},
	"fragments of IPv6": func(b []byte) [][]byte { return inFragments6(b, 256) },
	"VXLAN in fragments": func(b []byte) [][]byte {
		return inFragments(join(b[:14], inUDP(4789, join(0x0800, 0, 0, 0x0900, b))), 1000)
	},
}

// dressed is a capture in clothes.
func dressed(tb testing.TB, file string, dress func([]byte) [][]byte) []byte {
	tb.Helper()
	f, err := os.Open(file)
	noErr(tb, err)
	defer f.Close()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	noErr(tb, w.WriteFileHeader(1<<18, layers.LinkTypeEthernet))
	for pkt, err := range decode.Packets(f) {
		noErr(tb, err)
		all := [][]byte{pkt.Data}
		if binary.BigEndian.Uint16(pkt.Data[12:]) == 0x0800 {
			all = dress(bytes.Clone(pkt.Data))
		}
		for _, b := range all {
			noErr(tb, w.WritePacket(gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(b), Length: len(b)}, b))
		}
	}
	return out.Bytes()
}

// findings are all that a report says except addresses and numbers of packets.
func findings(r *judge.Report) string {
	var s strings.Builder
	fmt.Fprintln(&s, r.Verdict(), r.Judged())
	for _, c := range r.Connections {
		fmt.Fprintln(&s, c.Info.ID, c.FPDUs, c.Octets, c.Messages, c.Counts, c.Info.Unknown)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(&s, v.Rule.ID, v.Conn.ID, v.Dir, v.Offset, v.Folded)
	}
	return s.String()
}

func report(tb testing.TB, b []byte) *judge.Report {
	tb.Helper()
	r, err := judge.File(bytes.NewReader(b), nil)
	noErr(tb, err)
	return r
}

// TestClothes: whatever a capture is wrapped in, the findings are those of the bare one.
func TestClothes(t *testing.T) {
	for _, name := range []string{"b-nfs3-ops", "d-mpa-bad", "f-nfs3-p2p-ops", "r-roce-nfs3"} {
		file := filepath.Join("../../testdata/pcaps", name+".pcap")
		want := findings(report(t, dressed(t, file, bare)))
		for dress, f := range clothes {
			if name == "r-roce-nfs3" && (strings.HasPrefix(dress, "IPv6") || dress == "fragments of IPv6") {
				continue // these make TCP of it
			}
			t.Run(name+"/"+dress, func(t *testing.T) {
				if got := findings(report(t, dressed(t, file, f))); got != want {
					t.Errorf("%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

func bare(b []byte) [][]byte { return [][]byte{b} }

// TestClothesTshark: tshark sees the same TCP segments in all clothes.
func TestClothesTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark here (apt-get install tshark)")
	}
	list := func(f func(b []byte) [][]byte) string {
		in := filepath.Join(t.TempDir(), "in.pcap")
		noErr(t, os.WriteFile(in, dressed(t, "../../testdata/pcaps/f-nfs3-p2p-ops.pcap", f), 0o600))
		// It has to be told which labels are of pseudowires.
		out, err := exec.Command(tshark, "-r", in, "-d", "mpls.label==17,pwethcw", "-d", "mpls.label==18,pwethnocw",
			"-Y", "tcp", "-T", "fields", "-e", "tcp.srcport", "-e", "tcp.seq_raw", "-e", "tcp.len").Output()
		noErr(t, err)
		return string(out)
	}
	names := slices.Sorted(maps.Keys(clothes))
	all := list(func(b []byte) (all [][]byte) {
		for _, name := range names {
			all = append(all, clothes[name](bytes.Clone(b))...)
		}
		return all
	})
	lines := strings.SplitAfter(all, "\n")
	want := strings.SplitAfter(list(bare), "\n")
	if len(lines) != (len(want)-1)*len(names)+1 {
		t.Fatalf("%d segments in %d clothes, %d in none", len(lines)-1, len(names), len(want)-1)
	}
	for i, l := range lines[:len(lines)-1] {
		if l != want[i/len(names)] {
			t.Errorf("%s: %s, want %s", names[i%len(names)], l, want[i/len(names)])
		}
	}
}

// TestFragmentsAstray: fragments that overlap with other octets, or of which one is missing, are octets that are not in
// the capture, of which nobody is accused; without any datagram that is whole, the report says so.
func TestFragmentsAstray(t *testing.T) {
	const file = "../../testdata/pcaps/f-nfs3-crc-ops.pcap"
	want := report(t, dressed(t, file, bare))
	for name, spoil := range map[string]func(all [][]byte) [][]byte{
		"missing": func(all [][]byte) [][]byte { return all[1:] },
		"overlap": func(all [][]byte) [][]byte {
			again := bytes.Clone(all[0])
			again[len(again)-1] ^= 1
			return append([][]byte{again}, all...)
		},
		"longer than its end": func(all [][]byte) [][]byte {
			again := bytes.Clone(all[len(all)-1])
			again[21] += 8
			return append([][]byte{again}, all...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			r := report(t, dressed(t, file, func(b []byte) [][]byte {
				all := inFragments(b, 256)
				if n++; n > 40 && n%16 == 0 && len(all) > 1 {
					return spoil(all)
				}
				return all
			}))
			if len(r.Violations) > len(want.Violations) || r.Verdict() == judge.Clean || !strings.Contains(strings.Join(r.Reasons(), "\n"), "missing from the capture") {
				t.Errorf("%v: %v\n%s", r.Verdict(), r.Violations, r.Reasons())
			}
			r = report(t, dressed(t, file, func(b []byte) [][]byte { return inFragments(b, 8)[:1] }))
			if why := strings.Join(r.Reasons(), "\n"); !strings.Contains(why, "fragments of IP datagrams") {
				t.Error(why)
			}
		})
	}
	// A million fragments of datagrams that never become whole take bounded memory.
	c := decode.NewCapture(nil, func(*decode.Event) {})
	tcp := join(make([]byte, 12), 0x0800, inIP(4, 6, make([]byte, 1024)))
	for i := range 100_000 {
		b := inFragments(tcp, 512)[i%2]
		c.Packet(&decode.Packet{Frame: i + 1, Time: time.Unix(int64(i), 0), Link: layers.LinkTypeEthernet, Len: len(b), Data: b})
	}
	if c.Stats.Fragments != 100_000 {
		t.Errorf("%+v", c.Stats)
	}
}
