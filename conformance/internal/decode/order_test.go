package decode_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// packetsOf returns the packets of a capture.
func packetsOf(tb testing.TB, file string) []decode.Packet {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var all []decode.Packet
	for pkt, err := range decode.Packets(bytes.NewReader(b)) {
		if err != nil {
			tb.Fatal(err)
		}
		pkt.Data = bytes.Clone(pkt.Data)
		all = append(all, pkt)
	}
	return all
}

// frameNumbers are the parts that change when packets are moved.
var frameNumbers = regexp.MustCompile(`^ *\d+ | \((call|request) in \d+\)`)

// said2 decodes packets and returns the events of each connection and direction as lines.
func said2(pkts []decode.Packet, opt *decode.Options) map[string][]string {
	got := make(map[string][]string)
	c := decode.NewCapture(opt, func(ev *decode.Event) {
		line := frameNumbers.ReplaceAllString(ev.String(), "")
		if ev.Kind != decode.KindUndecoded { // those come as the octets came
			key := line[:strings.IndexByte(line, ' ')+2]
			got[key] = append(got[key], line)
		}
	})
	for i := range pkts {
		pkts[i].Frame = i + 1
		c.Packet(&pkts[i])
	}
	c.Finish()
	return got
}

// repaired are changes that TCP repairs, made to packets by the octets of script: each changes
// one packet.
func repaired(pkts []decode.Packet, script []byte) []decode.Packet {
	out := slices.Clone(pkts)
	for len(script) >= 3 {
		i, op, k := (int(script[0])|int(script[1])<<8)%len(out), script[2]&3, 1+int(script[2]>>2)%8
		script = script[3:]
		h, ok := tcpHeader(out[i].Data)
		if !ok || out[i].Data[h+13]&7 != 0 { // FIN, SYN, RST
			continue
		}
		j := min(i+k, len(out)-1)
		switch op {
		case 0: // sent again later
			out = slices.Insert(out, j+1, out[i])
		case 1: // captured later
			p := out[i]
			out = slices.Insert(slices.Delete(out, i, i+1), j, p)
		case 2: // sent in two parts, captured in the wrong order
			if a, b, ok := split(out[i], k*7); ok {
				out = slices.Replace(out, i, i+1, b, a)
			}
		case 3: // the second part is sent again with some of the first one
			if a, b, ok := split(out[i], k*50); ok {
				out = slices.Replace(out, i, i+1, a, out[i], b)
			}
		}
	}
	return out
}

// tcpHeader returns where the TCP header of an Ethernet packet with IPv4 begins.
func tcpHeader(b []byte) (at int, ok bool) {
	if len(b) < 54 || b[12] != 8 || b[13] != 0 || b[14]>>4 != 4 || b[23] != 6 {
		return 0, false
	}
	at = 14 + int(b[14]&15)*4
	return at, len(b) >= at+20
}

// split cuts the payload of a packet at n octets.
func split(p decode.Packet, n int) (a, b decode.Packet, ok bool) {
	h, _ := tcpHeader(p.Data)
	data := h + int(p.Data[h+12]>>4)*4
	end := min(14+(int(p.Data[16])<<8|int(p.Data[17])), len(p.Data))
	if data+n >= end {
		return p, p, false
	}
	resize := func(q decode.Packet, from, to int) decode.Packet {
		q.Data = append(bytes.Clone(p.Data[:data]), p.Data[from:to]...)
		size := len(q.Data) - 14
		q.Data[16], q.Data[17], q.Len = byte(size>>8), byte(size), len(q.Data)
		seq := uint32(p.Data[h+4])<<24 | uint32(p.Data[h+5])<<16 | uint32(p.Data[h+6])<<8 | uint32(p.Data[h+7])
		seq += uint32(from - data)
		q.Data[h+4], q.Data[h+5], q.Data[h+6], q.Data[h+7] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
		return q
	}
	return resize(p, data, data+n), resize(p, data+n, end), true
}

// sameSaid compares what two captures say.
func sameSaid(t *testing.T, got, want map[string][]string) {
	t.Helper()
	for key, lines := range want {
		for i, line := range lines {
			if i >= len(got[key]) || got[key][i] != line {
				t.Fatalf("line %d of %s: got\n%s\nwant\n%s", i, key, got[key][min(i, len(got[key])):min(i+3, len(got[key]))], line)
			}
		}
	}
}

// TestRepaired: packets that were lost and sent again, captured out of order, or cut differently say the
// same.
func TestRepaired(t *testing.T) {
	const seed = 9
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, name := range []string{"a-rping.pcap", "f-nfs3-crc-ops.pcap", "c-nfs42-xattr.pcap"} {
		pkts := packetsOf(t, pcapDir+"/"+name)
		want := said2(pkts, nil)
		for range 20 {
			script := make([]byte, 3*10)
			for i := range script {
				script[i] = byte(rnd.Uint32())
			}
			sameSaid(t, said2(repaired(pkts, script), nil), want)
		}
	}
}

// FuzzRepaired is TestRepaired with changes from the input.
func FuzzRepaired(f *testing.F) {
	pkts := packetsOf(f, pcapDir+"/f-nfs3-crc-ops.pcap")
	want := said2(slices.Clone(pkts), nil)
	for op := range byte(4) {
		f.Add([]byte{20, 0, op, 30, 0, op | 4, 40, 0, op | 16})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		sameSaid(t, said2(repaired(pkts, script[:min(len(script), 30)]), nil), want)
	})
}
