package judge_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

// inPackets is a conversation in RoCE.
func inPackets(o twin.RoCE, talk func(*twin.RPC)) [][]byte {
	conv := twin.NewRPC()
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
	packets := inPackets(twin.RoCE{}, func(t *twin.RPC) { t.Do(t.ReadFile(3000)) })
	at := slices.IndexFunc(packets, func(p []byte) bool { return p[42] == 7 })
	lines := strings.Join(roceLines(t, linkEthernet, without(packets, func(i int) bool { return i == at })), "\n")
	if !strings.Contains(lines, "RC RDMA Write Middle psn=4098 qp=0x000011 !! beginning not in the capture: an RDMA Write\n") {
		t.Error(lines)
	}
	talks := map[string]func(*twin.RPC){"good": goodRPC, "good, RFC 5666": goodOld}
	for _, table := range []map[string]func(*twin.RPC){rpcrdmaTwins, rpcTwins, nfsTwins} {
		maps.Copy(talks, table)
	}
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, name := range slices.Sorted(maps.Keys(talks)) {
		packets := inPackets(twin.RoCE{}, talks[name])
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
	packets := inPackets(twin.RoCE{}, func(t *twin.RPC) {
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
	packets := inPackets(twin.RoCE{}, goodRPC)
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
	packets := inPackets(twin.RoCE{}, goodRPC)
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
		if _, err := judge.File(bytes.NewReader(twin.Pcap(linkEthernet, all, 0)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoCEHostile: captures made to be remembered take bounded memory: connections and queue pairs that are never used,
// packets far ahead of what is due, requests that are never answered.
func TestRoCEHostile(t *testing.T) {
	opt := &decode.Options{MaxEarly: 1 << 16, MaxConns: 64}
	conv := twin.NewRPC()
	conv.Do(conv.Null())
	base := conv.RoCE(twin.RoCE{MTU: 4096})
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
