package decode_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// written writes a capture and returns its events as lines, without packet numbers.
func written(t *testing.T, opt *decode.Options, say func(w *capture.Writer)) []string {
	t.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	must(t, err)
	say(w)
	must(t, w.Close())
	var lines []string
	for ev, err := range decode.Events(&file, opt) {
		must(t, err)
		_, line, _ := strings.Cut(strings.TrimLeft(ev.String(), " "), " ")
		lines = append(lines, line)
	}
	return lines
}

// converse sends a startup and one Send.
func converse(t *testing.T, c *capture.Conn) {
	t.Helper()
	for _, p := range append(startup(true), piece{dir: decode.FromOpener, b: unhex(t, helloSend)}) {
		c.Write(capture.Dir(p.dir), p.b)
	}
}

const helloSend = "001741430000000000000000000000010000000048454c4c4f000000ccc19375"

// TestPortReuse: the same ends, twice; the second connection begins with a SYN of another number
// even if the end of the first is not in the capture.
func TestPortReuse(t *testing.T) {
	a, b := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:20049")
	got := written(t, nil, func(w *capture.Writer) {
		converse(t, w.Conn(a, b))
		converse(t, w.Conn(b, a)) // the other way round, so the numbers differ
		w.Conn(a, b).Close()
	})
	var ids []string
	for _, l := range got {
		id, _, _ := strings.Cut(l, " ")
		ids = append(ids, id)
	}
	if s := strings.Join(ids, " "); s != "c1 c1 c1 c1 c2 c2 c2 c2 c3 c3 c3" {
		t.Errorf("%s\n%s", s, strings.Join(got, "\n"))
	}
}

// captureFault reports whether an error is about the capture, not about the peers.
func captureFault(err error) bool {
	for _, e := range []error{decode.ErrHole, decode.ErrMiddle, decode.ErrUnseen, decode.ErrNoCall, decode.ErrNotPlaced, decode.ErrPartial} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// TestCaptureLoss: a capture that lacks packets here and there, or the first ones, accuses nobody, and
// nearly everything in it is decoded.
func TestCaptureLoss(t *testing.T) {
	const seed = 13
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, name := range []string{"a-rping.pcap", "b-nfs3-write1m.pcap", "b-nfs3-read1m.pcap", "c-nfs41.pcap", "e-perftest.pcap", "f-nfs3-crc-ops.pcap"} {
		pkts := packetsOf(t, pcapDir+"/"+name)
		for round := range 6 {
			first, every := 0, 100 // packets missing at the beginning; one in how many
			if round%2 == 0 {
				first, every = rnd.IntN(len(pkts)/2), 1<<30
			}
			octets, decoded := 0, 0
			c := decode.NewCapture(nil, func(ev *decode.Event) {
				if ev.Conn.Foreign {
					return
				}
				octets += ev.Len
				if ev.Kind == decode.KindFPDU || ev.Kind == decode.KindStartup {
					decoded += ev.Len
				}
				if ev.Err != nil && !captureFault(ev.Err) {
					t.Errorf("seed %d: %s, round %d: %v", seed, name, round, ev)
				}
			})
			for i := range pkts {
				pkts[i].Frame = i + 1
				if i >= first && (i == 0 || rnd.IntN(every) > 0) {
					c.Packet(&pkts[i])
				}
			}
			c.Finish()
			if decoded*10 < octets*8 {
				t.Errorf("seed %d: %s, round %d: %d of %d octets decoded", seed, name, round, decoded, octets)
			}
		}
	}
}

// TestConflict: a retransmission with other contents is reported, and what came first counts.
func TestConflict(t *testing.T) {
	pkts := packetsOf(t, pcapDir+"/d-reject.pcap")
	var lines []string
	c := decode.NewCapture(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
	for i := range pkts {
		c.Packet(&pkts[i])
		if h, ok := tcpHeader(pkts[i].Data); ok && len(pkts[i].Data) > h+60 {
			again := pkts[i]
			again.Data = slices.Clone(again.Data)
			again.Data[len(again.Data)-1] ^= 1
			c.Packet(&again)
		}
	}
	c.Finish()
	all := strings.Join(lines, "\n")
	if strings.Count(all, "octets retransmitted with other contents: 1") != 2 || !strings.Contains(all, "MPA Reply") {
		t.Error(all)
	}
}

// TestAcknowledgedLoss: octets that the peer has acknowledged and the capture lacks are given up soon, not
// only when MaxEarly octets are held.
func TestAcknowledgedLoss(t *testing.T) {
	pkts := packetsOf(t, pcapDir+"/b-nfs3-read1m.pcap")
	hole, gone := false, 0
	c := decode.NewCapture(nil, func(ev *decode.Event) { hole = hole || ev.Missing > 0 })
	for i := range pkts {
		if gone == 0 && i > 100 && len(pkts[i].Data) > 1000 {
			gone = i
			continue
		}
		if c.Packet(&pkts[i]); gone > 0 && i == gone+decode.Patience+20 {
			break
		}
	}
	if !hole {
		t.Errorf("%d packets after packet %d went missing nothing is reported", decode.Patience+20, gone)
	}
}

// packetsOf returns the packets of a capture.
func packetsOf(tb testing.TB, file string) []decode.Packet {
	tb.Helper()
	b, err := os.ReadFile(file)
	must(tb, err)
	var all []decode.Packet
	for pkt, err := range decode.Packets(bytes.NewReader(b)) {
		must(tb, err)
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

// sideOf returns who sent a packet of a capture of one connection, and its TCP flags.
func sideOf(pkts []decode.Packet, p *decode.Packet) (opener bool, flags byte) {
	h, _ := tcpHeader(p.Data)
	first, _ := tcpHeader(pkts[0].Data)
	return string(p.Data[h:h+2]) == string(pkts[0].Data[first:first+2]), p.Data[h+13]
}

// events decodes packets, shows the events to see, and returns the connections.
func events(pkts []decode.Packet, see func(ev *decode.Event)) (conns []*decode.ConnInfo) {
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		if !slices.Contains(conns, ev.Conn) {
			conns = append(conns, ev.Conn)
		}
		see(ev)
	})
	for i := range pkts {
		pkts[i].Frame = i + 1
		c.Packet(&pkts[i])
	}
	c.Finish()
	return conns
}

// TestOneSide: a capture of only one direction is decoded, and all that is wrong is that the other one is
// missing.
func TestOneSide(t *testing.T) {
	for _, want := range []bool{true, false} {
		pkts := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
		some := slices.DeleteFunc(slices.Clone(pkts), func(p decode.Packet) bool {
			opener, _ := sideOf(pkts, &p)
			return opener != want
		})
		fpdus, hole := 0, false
		conns := events(some, func(ev *decode.Event) {
			if ev.Err != nil && !captureFault(ev.Err) {
				t.Errorf("opener %t: %v", want, ev)
			}
			hole = hole || ev.Missing > 0
			if ev.FPDU != nil {
				fpdus++
			}
		})
		if len(conns) != 1 || fpdus < 35 || !hole || conns[0].Unknown&decode.UnknownOrder != 0 {
			t.Errorf("opener %t: %d FPDUs, hole %t, %d connections, unknown: %v", want, fpdus, hole, len(conns), conns[0].Unknown)
		}
	}
}

// TestOrderUnknown: UnknownOrder is set if a packet was captured before what it answers, and for nothing
// else: neither for retransmissions nor for missing packets.
func TestOrderUnknown(t *testing.T) {
	good := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
	request := 3 // SYN, SYN and ACK, ACK, Request, ACK, Reply
	for _, tt := range []struct {
		name string
		make func(p []decode.Packet) []decode.Packet
		want decode.Unknown
	}{
		{"good", func(p []decode.Packet) []decode.Packet { return p }, 0},
		{"Request after the Reply", func(p []decode.Packet) []decode.Packet {
			late := p[request]
			return slices.Insert(slices.Delete(p, request, request+1), request+2, late)
		}, decode.UnknownOrder},
		{"SYN after the Request", func(p []decode.Packet) []decode.Packet { p[0], p[request] = p[request], p[0]; return p }, 0},
		{"Request lost", func(p []decode.Packet) []decode.Packet {
			return slices.Delete(p, request, request+1)
		}, decode.UnknownStartup | decode.UnknownInitiator | decode.UnknownPast | decode.UnknownHole},
	} {
		conns := events(tt.make(slices.Clone(good)), func(*decode.Event) {})
		if len(conns) != 1 || conns[0].Unknown&^decode.UnknownCRC != tt.want&^decode.UnknownCRC {
			t.Errorf("%s: %d connections, unknown: %v", tt.name, len(conns), conns[0].Unknown)
		}
	}
}

// TestUnseenEnd: octets at the end of a capture that only an acknowledgement shows are missing. One of them
// may be a FIN.
func TestUnseenEnd(t *testing.T) {
	good := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
	good = slices.DeleteFunc(good, func(p decode.Packet) bool {
		_, flags := sideOf(good, &p)
		return flags&1 != 0 // FIN
	})
	for _, lost := range []bool{false, true} {
		pkts, missing := slices.Clone(good), 0
		for i := len(pkts) - 1; lost; i-- {
			if opener, _ := sideOf(good, &pkts[i]); !opener && len(pkts[i].Data) > 80 {
				pkts = slices.Delete(pkts, i, i+1)
				break
			}
		}
		events(pkts, func(ev *decode.Event) { missing += ev.Missing })
		if lost != (missing > 1) || !lost && missing > 0 {
			t.Errorf("lost: %t, %d octets missing", lost, missing)
		}
	}
}

// TestForeignAfterFIN: a stream without a key is not MPA if its peer ends without sending anything.
func TestForeignAfterFIN(t *testing.T) {
	c := decode.NewConn(nil, func(ev *decode.Event) {
		if errors.Is(ev.Err, decode.ErrStartup) {
			t.Error(ev)
		}
	})
	c.Close(decode.FromAccepter, false, decode.Stamp{Frame: 1})
	c.Octets(decode.FromOpener, []byte("GET / HTTP/1.1\r\n"), decode.Stamp{Frame: 2})
	c.Finish()
	if !c.Info.Foreign {
		t.Error("taken for MPA")
	}
}
