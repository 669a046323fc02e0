package judge_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// roceLines decodes packets. It returns the lines of the events, from the direction on.
func roceLines(t *testing.T, link uint32, packets [][]byte) (lines []string) {
	t.Helper()
	for ev, err := range decode.Events(bytes.NewReader(twin.Pcap(link, packets, 0)), nil) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, ev.String()[9:])
		if b, err := json.Marshal(ev); err != nil || bytes.Contains(b, []byte("iwarp")) || ev.RC != nil && !bytes.Contains(b, []byte(`"psn":`)) {
			t.Errorf("%s, %v", b, err)
		}
	}
	return lines
}

// rawRoCE makes packets by hand, behind the REQ and REP of a connection: each line is a direction, an opcode, a PSN beyond the
// first, and the octets behind the Base Transport Header.
func rawRoCE(t *testing.T, o twin.RoCE, lines string) [][]byte {
	t.Helper()
	all := twin.New().Startup().RoCE(o)
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
		dir := twin.I
		if f[0] == "<" {
			dir = twin.R
		}
		all = append(all, o.Raw(dir, byte(n[0]), n[1], b))
	}
	return all
}

// TestRoCEOpcodes: what the packets of each opcode say, in the words of InfiniBand; and those that answer requests.
func TestRoCEOpcodes(t *testing.T) {
	const reth = "0000000000001000 00000abc 00000010 "
	got := roceLines(t, linkEthernet, rawRoCE(t, twin.RoCE{}, `
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
	talk := func(t *twin.RPC) {
		for range 4 {
			t.Do(t.Null())
			t.Do(t.WriteFile(3000))
		}
		t.Close()
	}
	packets := inPackets(twin.RoCE{}, talk)
	other := inPackets(twin.RoCE{QP: 0x99, ID: 0x99}, talk)
	again := inPackets(twin.RoCE{ID: 0x99}, talk) // the same queue pairs
	later := inPackets(twin.RoCE{PSN: 0x2000}, talk)
	sameID := inPackets(twin.RoCE{QP: 0x99}, talk) // the same numbers in the connection manager
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
	for _, p := range inPackets(twin.RoCE{LID: true}, talk) {
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
		if err := os.WriteFile(files[name], twin.Pcap(linkEthernet, inPackets(o, goodRPC), 0), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), tshark, "-r", file, "-Y", "infiniband.bth.opcode < 32 && infiniband.bth.opcode != 17", "-T", "fields",
				"-e", "frame.number", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn",
				"-e", "infiniband.reth.r_key", "-e", "infiniband.reth.va", "-e", "infiniband.reth.dmalen", "-e", "rpcordma.xid").Output()
			if err != nil {
				t.Fatal(err)
			}
			theirs := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			n := 0
			for ev, err := range decode.Events(f, nil) {
				if err != nil {
					t.Fatal(err)
				}
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
