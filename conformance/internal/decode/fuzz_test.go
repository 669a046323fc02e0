package decode_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// smallOptions make every limit easy to reach.
var smallOptions = &decode.Options{MaxEarly: 4096, MaxMessage: 2048, MaxPlaced: 8192, MaxCalls: 4, MaxConns: 3}

// FuzzCapture: no file makes the decoder panic, and the events of a stream cover it without
// overlap, can be printed, and become JSON.
func FuzzCapture(f *testing.F) {
	for _, file := range captures(f) {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 1500)])
	}
	f.Add(ngSeed(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		next := make(map[*decode.ConnInfo]*[2]uint64)
		for ev, err := range decode.Events(bytes.NewReader(b), smallOptions) {
			if err != nil {
				continue
			}
			covers(t, ev, next)
		}
	})
}

// covers checks an event, and that it begins where the one before it in its direction ended.
func covers(t *testing.T, ev *decode.Event, next map[*decode.ConnInfo]*[2]uint64) {
	t.Helper()
	if checkEvent(t, ev); ev.Again != nil {
		return // about octets that were there before
	}
	n := next[ev.Conn]
	if n == nil {
		n = new([2]uint64)
		next[ev.Conn] = n
	}
	if want := n[ev.Dir] + uint64(ev.Missing); ev.Offset != want {
		t.Fatalf("at octet %d, want %d: %v", ev.Offset, want, ev)
	}
	n[ev.Dir] = ev.Offset + uint64(ev.Len)
}

// FuzzPacket is FuzzCapture without the file: packets of Ethernet, InfiniBand and ERF. The input is a sequence of packets: an
// octet for the link and for what is cut off, two for the length, the octets.
func FuzzPacket(f *testing.F) {
	links := []layers.LinkType{layers.LinkTypeEthernet, 247, 197, layers.LinkTypeEthernet}
	for _, file := range captures(f) {
		in, err := os.Open(file)
		if err != nil {
			f.Fatal(err)
		}
		var b, lids []byte
		for p, err := range decode.Packets(in) {
			if err != nil {
				f.Fatal(err)
			}
			if p.Frame > 60 || len(b) > 4<<10 {
				break
			}
			b = append(append(b, 0, byte(len(p.Data)>>8), byte(len(p.Data))), p.Data...)
			if len(p.Data) > 46 && p.Data[23] == 17 { // the same from a Local Route Header on
				bth := p.Data[42:]
				lids = append(append(lids, 1, byte((len(bth)+8)>>8), byte(len(bth)+8)), 0, 2, 0, p.Data[33], byte((len(bth)+8)/4>>8), byte((len(bth)+8)/4), 0, p.Data[29])
				lids = append(lids, bth...)
			}
		}
		in.Close()
		f.Add(b)
		f.Add(lids)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		next := make(map[*decode.ConnInfo]*[2]uint64)
		c := decode.NewCapture(smallOptions, func(ev *decode.Event) { covers(t, ev, next) })
		for frame := 1; len(b) >= 3; frame++ {
			n := min(int(b[1])<<8|int(b[2]), len(b)-3)
			p := decode.Packet{Frame: frame, Link: links[b[0]&3], Data: b[3 : 3+n], Len: n + int(b[0]>>2)}
			c.Packet(&p)
			b = b[3+n:]
		}
		c.Finish()
	})
}

// checkEvent checks what holds for every event.
func checkEvent(t *testing.T, ev *decode.Event) {
	t.Helper()
	if line := ev.Line(time.Unix(0, 0)); strings.ContainsAny(line, "\n\r") || line == "" {
		t.Fatalf("not one line: %q", line)
	}
	if b, err := json.Marshal(ev); err != nil || !json.Valid(b) {
		t.Fatalf("JSON: %v: %s", err, b)
	}
	if ev.Raw != nil && len(ev.Raw) != ev.Len {
		t.Fatalf("%d octets of %d: %v", len(ev.Raw), ev.Len, ev)
	}
	if (ev.Kind == decode.KindFPDU) != (ev.FPDU != nil) || (ev.Kind == decode.KindStartup) != (ev.Startup != nil) ||
		(ev.Kind == decode.KindPacket) != (ev.RC != nil) {
		t.Fatalf("layers do not fit the kind: %v", ev)
	}
}

// ngSeed returns a small capture as pcapng.
func ngSeed(f *testing.F) []byte {
	f.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "reject.pcapng"))
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzConn feeds a conversation to a connection twice, in the pieces that the input says and octet by
// octet: the events must be the same. The input is a sequence of pieces: an octet for the direction (bit 0), a hole
// before it (bit 1) and a beginning that was missed (bit 2), two for the length, the octets.
func FuzzConn(f *testing.F) {
	for _, file := range captures(f) {
		for i, pieces := range conversations(f, file) {
			if i >= 3 {
				continue
			}
			for _, from := range []int{0, 1} { // the startup frames left out
				b := script(pieces[min(from*2, len(pieces)):])
				f.Add(b[:min(len(b), 1000)])
				for at := range b[:min(len(b), 1)] {
					b[at] |= 4
				}
				f.Add(b[:min(len(b), 2000)])
			}
		}
	}
	padded := conversation(f, 64, octetsOf(8), nfs3.ProcRead, &nfs3.ReadArgs{Handle: octetsOf(16), Count: 200}, 0,
		&nfs3.ReadRes{Count: 200, Data: octetsOf(200)}, 200)
	f.Add(script(exchange(padded)))
	f.Add(script(exchange([][]byte{padded[0], padded[1][:len(padded[1])-9]})))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<14 {
			return
		}
		pieces := unscript(b)
		want := decoded(say(pieces, smallOptions, whole))
		got := decoded(say(pieces, smallOptions, func(b []byte) (cut [][]byte) {
			for i := range b {
				cut = append(cut, b[i:i+1])
			}
			return cut
		}))
		if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
			t.Fatalf("octet by octet\n%s\nin pieces\n%s", a, b)
		}
	})
}

// script writes a conversation as an input of FuzzConn.
func script(pieces []piece) (b []byte) {
	for _, p := range pieces {
		if len(p.b) > 0xffff {
			p.b = p.b[:0xffff]
		}
		b = append(b, byte(p.dir), byte(len(p.b)>>8), byte(len(p.b)))
		b = append(b, p.b...)
	}
	return b
}

// unscript reads an input of FuzzConn.
func unscript(b []byte) (pieces []piece) {
	for len(b) >= 3 {
		p, n := piece{dir: decode.Dir(b[0] & 1), joined: b[0]&4 != 0}, int(b[1])<<8|int(b[2])
		if b[0]&2 != 0 {
			p.hole = 1 + n%4096
		}
		b = b[3:]
		n = min(n, len(b))
		p.b = b[:n]
		pieces = append(pieces, p)
		b = b[n:]
	}
	return pieces
}

// TestMutated decodes the captures with octets changed, dropped and doubled anywhere, their
// upper layers included: no panic, no unbounded memory, every event well formed.
func TestMutated(t *testing.T) {
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, file := range captures(t) {
		b, err := os.ReadFile(file)
		must(t, err)
		b = b[:min(len(b), 40000)]
		for round := range 25 {
			m := mutate(rnd, bytes.Clone(b))
			for ev, err := range decode.Events(bytes.NewReader(m), smallOptions) {
				if err == nil {
					checkEvent(t, ev)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s, round %d", seed, file, round)
			}
		}
	}
}

// mutate damages b in up to 60 places, the headers of the file and of its packets less often than their
// contents.
func mutate(rnd *rand.Rand, b []byte) []byte {
	for range 1 + rnd.IntN(60) {
		i := 24 + rnd.IntN(len(b)-24)
		switch n := 1 + rnd.IntN(8); rnd.IntN(8) {
		case 0:
			b = append(b[:i], b[min(i+n, len(b)):]...)
		case 1:
			b = append(b[:i], append(bytes.Clone(b[i:min(i+n, len(b))]), b[i:]...)...)
		case 2:
			b[i] = 0xff
		case 3:
			b[i] = 0
		default:
			b[i] ^= 1 << rnd.IntN(8)
		}
	}
	return b
}
