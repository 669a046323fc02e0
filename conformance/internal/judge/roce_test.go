package judge_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// roceLines decodes packets. It returns the lines of the events, from the direction on.
func roceLines(t *testing.T, link uint32, packets [][]byte) (lines []string) {
	t.Helper()
	for ev, err := range decode.Events(bytes.NewReader(Pcap(link, packets, 0)), nil) {
		noErr(t, err)
		lines = append(lines, ev.String()[9:])
		if b, err := json.Marshal(ev); err != nil || bytes.Contains(b, []byte("iwarp")) || ev.RC != nil && !bytes.Contains(b, []byte(`"psn":`)) {
			t.Errorf("%s, %v", b, err)
		}
	}
	return lines
}

// rawRoCE makes packets by hand, behind the REQ and REP of a connection: each line is a direction, an opcode, a PSN beyond the
// first, and the octets behind the Base Transport Header.
func rawRoCE(t *testing.T, o RoCE, lines string) [][]byte {
	t.Helper()
	all := New().Startup().RoCE(o)
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var n [2]uint32
		for i := range n {
			for _, c := range f[1+i] {
				n[i] = n[i]*16 + uint32(strings.IndexRune("0123456789abcdef", c))
			}
		}
		var b []byte
		for _, s := range f[3:] {
			for i := 0; i+1 < len(s); i += 2 {
				b = append(b, byte(strings.IndexByte("0123456789abcdef", s[i])<<4|strings.IndexByte("0123456789abcdef", s[i+1])))
			}
		}
		dir := I
		if f[0] == "<" {
			dir = R
		}
		all = append(all, o.Raw(dir, byte(n[0]), n[1], b))
	}
	return all
}

// TestRoCEOpcodes: what the packets of each opcode say, in the words of InfiniBand; and those that answer requests.
func TestRoCEOpcodes(t *testing.T) {
	const reth = "0000000000001000 00000abc 00000010 "
	got := roceLines(t, linkEthernet, rawRoCE(t, RoCE{}, `
> 05 0 11223344 01020304
> 0b 1 `+reth+` 55667788 0102030405060708090a0b0c0d0e0f10
> 13 2 0000000000002000 00000def 0000000000000005 0000000000000007
< 12 2 1f000001 0000000000000007
> 14 3 0000000000002000 00000def 0000000000000001 0000000000000000
< 12 3 1f000001 0000000000000005
> 1c 4 00000003 `+reth+`
< 10 4 1f000001
> 1d 5 `+reth+` 1112131415161718
< 10 5 1f000001
> 17 6 00000abc 01020304
> 0c 7 `+reth+`
< 10 7 1f000001 000102030405060708090a0b0c0d0e0f
> 15 8
> 04 9 01
< 11 9 62000001
< 04 0
`))
	want := strings.Split(strings.TrimSpace(`
> open 192.0.2.1:40961 to 192.0.2.2:20049
> CM ConnectRequest ird=8 ord=8 private=73746167010cffff0000000e
< CM ConnectReply ird=8 ord=8 private=73746167010cffff0000000e
> RC Send Only Immediate psn=16777200 qp=0x000012 immediate=0x11223344 len=4
> RC RDMA Write Only Immediate psn=16777201 qp=0x000012 immediate=0x55667788 rkey=00000abc va=0x1000 len=16
> RC Compare Swap psn=16777202 qp=0x000012 | CmpSwap id=16777202 stag=00000def to=0x2000 operand=0x5 mask=0xffffffffffffffff compare=0x7 compare_mask=0xffffffffffffffff
< RC Atomic Acknowledge psn=16777202 qp=0x000011 | id=16777202 old=0x7
> RC Fetch Add psn=16777203 qp=0x000012 | FetchAdd id=16777203 stag=00000def to=0x2000 operand=0x1 mask=0x0
< RC Atomic Acknowledge psn=16777203 qp=0x000011 | id=16777203 old=0x5
> RC Flush psn=16777204 qp=0x000012 | stag=00000abc len=16 to=0x1000 flags=0x03
< RC RDMA Read Response Only psn=16777204 qp=0x000011 len=0
> RC Atomic Write psn=16777205 qp=0x000012 | stag=00000abc to=0x1000 data=1112131415161718
< RC RDMA Read Response Only psn=16777205 qp=0x000011 len=0
> RC Send Only Invalidate psn=16777206 qp=0x000012 inval_rkey=00000abc len=4
> RC RDMA Read Request psn=16777207 qp=0x000012 rkey=00000abc va=0x1000 dmalen=16
< RC RDMA Read Response Only psn=16777207 qp=0x000011 len=16
> RC opcode 0x15 psn=16777208 qp=0x000012 !! unexpected opcode
> RC Send Only psn=16777209 qp=0x000012 len=1
< RC Acknowledge psn=16777209 qp=0x000011 NAK remote access error
< RC Send Only psn=4096 qp=0x000011 len=0
`), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("event %d: %q\nwant %q", i, slices.Concat(got, make([]string, 99))[i], slices.Concat(want, make([]string, 99))[i])
		}
	}
}

// TestRoCEConnections: where a connection begins and ends.
func TestRoCEConnections(t *testing.T) {
	talk := func(t *RPC) {
		for range 4 {
			t.Do(t.Null())
			t.Do(t.WriteFile(3000))
		}
		t.Close()
	}
	packets := inPackets(RoCE{}, talk)
	other := inPackets(RoCE{QP: 0x99, ID: 0x99}, talk)
	again := inPackets(RoCE{ID: 0x99}, talk) // the same queue pairs
	later := inPackets(RoCE{PSN: 0x2000}, talk)
	sameID := inPackets(RoCE{QP: 0x99}, talk) // the same numbers in the connection manager
	reject := slices.Concat(packets[:1], [][]byte{bytes.Clone(packets[1])})
	binary.BigEndian.PutUint16(reject[1][78:], 0x12)
	reject[1][96], reject[1][97] = 0, 28
	var both [][]byte
	for i := range packets {
		both = append(both, packets[i], other[i])
	}
	end := len(packets) - 1
	for name, tt := range map[string]struct {
		packets [][]byte
		verdict judge.Verdict
		conns   int
		why     string
	}{
		"one":                    {packets, judge.Clean, 1, ""},
		"two at once":            {both, judge.Clean, 2, ""},
		"REQ and REP twice":      {slices.Concat(packets[:2], packets), judge.Clean, 1, ""},
		"queue pairs used again": {slices.Concat(packets, again), judge.Clean, 2, ""},
		"and no DREQ":            {slices.Concat(packets[:end], again), judge.Clean, 2, ""},
		"numbers used again":     {slices.Concat(packets[:end], sameID), judge.Clean, 2, ""},
		"rejected":               {reject, judge.Clean, 1, ""},
		"no REQ":                 {packets[1:], judge.Inconclusive, 1, "the startup"},
		"no REP":                 {slices.Delete(slices.Clone(packets), 1, 2), judge.Inconclusive, 1, "the startup"},
		"neither":                {packets[2:], judge.Inconclusive, 1, "the startup"},
		"from the middle":        {packets[40:], judge.Inconclusive, 1, "the startup"},
		"REQ alone":              {packets[:1], judge.Clean, 1, ""},
		"one side, no startup":   {without(packets, func(i int) bool { return packets[i][29] == 2 || i < 2 }), judge.Inconclusive, 0, "of which both sides are known"},
		"used again, no startup": {slices.Concat(packets, later[2:]), judge.Inconclusive, 1, "of which both sides are known"},
	} {
		t.Run(name, func(t *testing.T) {
			r, broken := judgedRoCE(t, linkEthernet, tt.packets, 0)
			if why := strings.Join(r.Reasons(), "\n"); r.Verdict() != tt.verdict || len(r.Connections) != tt.conns || len(broken) > 0 || !strings.Contains(why, tt.why) {
				t.Errorf("%v, %d connections, %v, %q", r.Verdict(), len(r.Connections), broken, why)
			}
		})
	}
	var erf [][]byte // of ERF, with an extension of its head
	for _, p := range inPackets(RoCE{LID: true}, talk) {
		erf = append(erf, join(make([]byte, 8), []byte{0x80 | 21, 4}, len(p)+24, 0, len(p), make([]byte, 8), p))
	}
	if r, broken := judgedRoCE(t, 197, erf, 0); r.Verdict() != judge.Clean || r.Judged() < 20 || broken != nil {
		t.Errorf("ERF: %v, %q", r.Verdict(), r.Reasons())
	}
	lines := roceLines(t, linkEthernet, reject)
	if !slices.Equal(lines[len(lines)-2:], []string{"< CM ConnectReject, reason 28", "> CM ConnectReject, reason 28"}) {
		t.Errorf("%q", lines)
	}
}

// tsharkLine is what tshark prints of a packet.
func tsharkLine(ev *decode.Event) string {
	key, va, n, xid := "", "", "", ""
	switch op := ev.RC.Opcode; {
	case op == 6 || op == 10:
		key, va = fmt.Sprintf("0x%v", ev.DDP.STag), fmt.Sprintf("0x%016x", ev.DDP.TO)
		n = fmt.Sprint(binary.BigEndian.Uint32(ev.Raw[12:]))
	case ev.Message != nil && ev.Message.Read != nil:
		r := ev.Message.Read
		key, va, n = fmt.Sprintf("0x%v", r.SourceSTag), fmt.Sprintf("0x%016x", r.SourceTO), fmt.Sprint(r.Size)
	}
	if ev.Header != nil {
		xid = fmt.Sprintf("0x%08x", ev.Header.XID)
	}
	return strings.Join([]string{fmt.Sprint(ev.Frame), fmt.Sprint(ev.RC.Opcode), fmt.Sprintf("0x%06x", ev.RC.QP), fmt.Sprint(ev.RC.PSN), key, va, n, xid}, "\t")
}

// TestRoCETshark: of each packet tshark says the same: opcode, queue pair, PSN, R_Key and address, message, XID.
func TestRoCETshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark here (apt-get install tshark)")
	}
	files := map[string]string{"linux": "../../testdata/pcaps/r-roce-nfs3.pcap"}
	for name, o := range inRoCE {
		if o.LID {
			continue // tshark finds no private data without addresses
		}
		files[name] = filepath.Join(t.TempDir(), "in.pcap")
		noErr(t, os.WriteFile(files[name], Pcap(linkEthernet, inPackets(o, goodRPC), 0), 0o600))
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), tshark, "-r", file, "-Y", "infiniband.bth.opcode < 32 && infiniband.bth.opcode != 17", "-T", "fields",
				"-e", "frame.number", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn",
				"-e", "infiniband.reth.r_key", "-e", "infiniband.reth.va", "-e", "infiniband.reth.dmalen", "-e", "rpcordma.xid").Output()
			noErr(t, err)
			theirs := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
			f, err := os.Open(file)
			noErr(t, err)
			defer f.Close()
			n := 0
			for ev, err := range decode.Events(f, nil) {
				noErr(t, err)
				if ev.RC == nil {
					continue
				}
				if ours := tsharkLine(ev); n >= len(theirs) || ours != theirs[n] {
					t.Fatalf("%q, tshark says %q", ours, slices.Concat(theirs, []string{""})[min(n, len(theirs))])
				}
				n++
			}
			if n != len(theirs) {
				t.Errorf("%d packets, tshark finds %d", n, len(theirs))
			}
		})
	}
}

// inPackets is a conversation in RoCE.
func inPackets(o RoCE, talk func(*RPC)) [][]byte {
	conv := NewRPC()
	talk(conv)
	return conv.RoCE(o)
}

// without returns the packets but those that drop chooses.
func without(packets [][]byte, drop func(i int) bool) (kept [][]byte) {
	for i, p := range packets {
		if !drop(i) {
			kept = append(kept, p)
		}
	}
	return kept
}

// accused fails for rules that packets break in spite of allowed.
func accused(t *testing.T, what any, packets [][]byte, cut int, allowed []string) *judge.Report {
	t.Helper()
	r, broken := judgedRoCE(t, linkEthernet, packets, cut)
	for _, id := range broken {
		if !slices.Contains(allowed, id) {
			t.Errorf("%v: %s is broken", what, id)
		}
	}
	return r
}

// TestRoCELost: of whatever packets the capture lacks, or has only the beginning, nobody is accused of anything of which they
// are not with all of them there; and without a request or its response the verdict is never clean.
func TestRoCELost(t *testing.T) {
	// Of a message in several packets nothing is shown behind one that is missing.
	packets := inPackets(RoCE{}, func(t *RPC) { t.Do(t.ReadFile(3000)) })
	at := slices.IndexFunc(packets, func(p []byte) bool { return p[42] == 7 })
	lines := strings.Join(roceLines(t, linkEthernet, without(packets, func(i int) bool { return i == at })), "\n")
	if !strings.Contains(lines, "RC RDMA Write Middle psn=4098 qp=0x000011 !! beginning not in the capture: an RDMA Write\n") {
		t.Error(lines)
	}
	talks := map[string]func(*RPC){"good": goodRPC, "good, RFC 5666": goodOld}
	for _, table := range []map[string]func(*RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		maps.Copy(talks, table)
	}
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, name := range slices.Sorted(maps.Keys(talks)) {
		packets := inPackets(RoCE{}, talks[name])
		_, allowed := judgedRoCE(t, linkEthernet, packets, 0)
		for i, p := range packets {
			r := accused(t, fmt.Sprintf("%s without packet %d", name, i+1), without(packets, func(j int) bool { return j == i }), 0, allowed)
			if op := p[42]; op < 0x11 && r.Verdict() == judge.Clean {
				t.Errorf("%s is clean without packet %d, opcode %#02x", name, i+1, op)
			}
		}
		for round := range 40 {
			rate, burst := []float64{0.01, 0.05, 0.2, 0.5}[round%4], 0
			drop := func(int) bool {
				if burst--; burst < 0 && rnd.Float64() < rate {
					burst = rnd.IntN(1 + round%5)
				}
				return burst >= 0
			}
			accused(t, fmt.Sprintf("seed %d: %s, round %d", seed, name, round), without(packets, drop), 0, allowed)
		}
		for range 10 {
			cut := 40 + rnd.IntN(300)
			accused(t, fmt.Sprintf("%s cut to %d", name, cut), packets, cut, allowed)
		}
	}
}

// TestRoCEPatience: for a packet that is acknowledged and not in the capture the others do not wait until its end.
func TestRoCEPatience(t *testing.T) {
	packets := inPackets(RoCE{}, func(t *RPC) {
		for range 100 {
			t.Do(t.Null())
		}
	})
	shown, holes := 0, 0
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		if shown++; errors.Is(ev.Err, decode.ErrHole) {
			holes++
		}
	})
	for i, p := range packets {
		if i != 20 {
			c.Packet(&decode.Packet{Frame: i + 1, Link: linkEthernet, Len: len(p), Data: p})
		}
	}
	if before := shown; holes != 1 || before < 190 {
		t.Errorf("%d events and %d holes before the end", before, holes)
	}
	c.Finish()
}

// TestRoCEAgain: what is sent again, or captured twice, or slightly out of order, is neither missing nor wrong.
func TestRoCEAgain(t *testing.T) {
	packets := inPackets(RoCE{}, goodRPC)
	want, _ := judgedRoCE(t, linkEthernet, packets, 0)
	const seed = 8
	rnd := rand.New(rand.NewPCG(seed, seed))
	toResponder := func(p []byte) bool { return p[29] == 1 }
	request := func(p []byte) bool { op := p[42]; return op <= 0x0c || op >= 0x13 && op < 0x20 }
	response := func(p []byte) bool { op := p[42]; return op >= 0x0d && op <= 0x10 }
	for name, change := range map[string]func(i int) [][]byte{
		"each packet twice": func(int) [][]byte {
			var all [][]byte
			for _, p := range packets {
				all = append(all, p, p)
			}
			return all
		},
		"go back, captured at the sender": func(i int) [][]byte { // requests of a side are sent again later
			var again [][]byte
			for _, p := range packets[i:min(i+8, len(packets))] {
				if request(p) && toResponder(p) == toResponder(packets[i]) {
					again = append(again, p)
				}
			}
			return slices.Insert(slices.Clone(packets), min(i+8, len(packets)), again...)
		},
		"read again, captured at the requester": func(i int) [][]byte { // it has lost a response, and asks for it and what follows
			if !response(packets[i]) {
				return packets
			}
			ask := i
			for packets[ask][42] != 0x0c {
				ask--
			}
			request := bytes.Clone(packets[ask])
			copy(request[51:54], packets[i][51:54])
			all := slices.Clone(packets[:i])
			for j := i + 1; j < len(packets) && response(packets[j]) && packets[j][42] != 0x0d && packets[j][42] != 0x10; j++ {
				all = append(all, packets[j])
			}
			return append(append(all, request), packets[i:]...)
		},
		"go back, captured at the receiver": func(i int) [][]byte { // it has lost the first: what follows in that direction comes again
			all := slices.Clone(packets[:i])
			j := i + 1
			for ; j < len(packets) && j < i+4 && toResponder(packets[j]) == toResponder(packets[i]) && packets[j][42] < 0x0d; j++ {
				all = append(all, packets[j])
			}
			return append(all, packets[i:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, p := range packets {
				if !request(p) && !response(p) {
					continue
				}
				r, broken := judgedRoCE(t, linkEthernet, change(i), 0)
				if len(broken) > 0 || len(r.Reasons()) > 0 || r.Judged() != want.Judged() {
					t.Fatalf("packet %d: %v %q; %d judged, want %d", i+1, broken, r.Reasons(), r.Judged(), want.Judged())
				}
			}
		})
	}
	for round := range 300 {
		all := slices.Clone(packets)
		for range 1 + rnd.IntN(4) {
			i := 3 + rnd.IntN(len(all)-4)
			all[i], all[i-1] = all[i-1], all[i]
		}
		accused(t, fmt.Sprintf("seed %d, round %d: out of order", seed, round), all, 0, nil)
	}
}

// TestRoCEFlipped: damaged packets make neither the decoder nor the judge panic, and their memory stays bounded.
func TestRoCEFlipped(t *testing.T) {
	packets := inPackets(RoCE{}, goodRPC)
	const seed = 9
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 400 {
		all := slices.Clone(packets)
		for range 1 + rnd.IntN(20) {
			i := rnd.IntN(len(all))
			p := bytes.Clone(all[i])
			if at := rnd.IntN(len(p)); rnd.IntN(3) > 0 {
				at = 14 + rnd.IntN(60)
				p[min(at, len(p)-1)] ^= 1 << rnd.IntN(8)
			} else {
				p[at] = byte(rnd.Uint32())
			}
			all[i] = p
			if rnd.IntN(4) == 0 {
				all = slices.Delete(all, i, i+1)
			}
		}
		if _, err := judge.File(bytes.NewReader(Pcap(linkEthernet, all, 0)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoCEHostile: captures made to be remembered take bounded memory: connections and queue pairs that are never used,
// packets far ahead of what is due, requests that are never answered.
func TestRoCEHostile(t *testing.T) {
	opt := &decode.Options{MaxEarly: 1 << 16, MaxConns: 64}
	conv := NewRPC()
	conv.Do(conv.Null())
	base := conv.RoCE(RoCE{MTU: 4096})
	send := base[2]
	for name, next := range map[string]func(i int) []byte{
		"connections": func(i int) []byte {
			p := bytes.Clone(base[i%2]) // REQ and REP with numbers of their own
			n := uint32(i / 2)
			binary.BigEndian.PutUint32(p[86:], n)
			if i%2 == 1 {
				binary.BigEndian.PutUint32(p[90:], n)
			}
			return p
		},
		"queue pairs": func(i int) []byte {
			p := bytes.Clone(send)
			binary.BigEndian.PutUint32(p[46:], uint32(i)&0xffffff)
			binary.BigEndian.PutUint32(p[50:], 0x80000000|uint32(i*7)&0xffff)
			return p
		},
		"far ahead": func(i int) []byte {
			if i < 2 {
				return base[i]
			}
			p := bytes.Clone(send)
			binary.BigEndian.PutUint32(p[50:], (0xfffff0+2+uint32(i)*64)&0xffffff)
			return p
		},
		"requests": func(i int) []byte {
			if i < 2 {
				return base[i]
			}
			p := bytes.Clone(send)
			p[42] = 0x0c
			binary.BigEndian.PutUint32(p[50:], (0xfffff0+uint32(i-2))&0xffffff)
			copy(p[54:], make([]byte, 16))
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			j := judge.New(nil, func(*judge.Violation) {})
			c := decode.NewCapture(opt, j.Event)
			for i := range 200_000 {
				p := next(i)
				c.Packet(&decode.Packet{Frame: i + 1, Link: linkEthernet, Len: len(p), Data: p})
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 4<<20 {
				t.Errorf("%d octets", n)
			}
			c.Finish()
			j.End()
		})
	}
}
