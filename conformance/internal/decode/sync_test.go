package decode_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// frameAt names an FPDU of a stream.
type frameAt struct {
	dir  decode.Dir
	off  uint64
	op   string
	size int
}

// lost says which octets of the streams of a conversation are not in a capture.
type lost struct {
	from, to [2]uint64 // by direction; none when both are 0
	joined   bool      // the missing octets are the first ones
}

// replay feeds a conversation without the octets that are lost, in packets of 1448 octets, and
// returns its FPDUs at their places in the whole streams, and the connection.
func replay(t *testing.T, pieces []piece, l lost) ([]frameAt, *decode.ConnInfo) {
	t.Helper()
	var got []frameAt
	var shift, next [2]uint64
	if l.joined {
		shift = l.to
	}
	c := decode.NewConn(nil, func(ev *decode.Event) {
		if ev.Offset != next[ev.Dir]+uint64(ev.Missing) {
			t.Errorf("at octet %d, want %d: %v", ev.Offset, next[ev.Dir], ev)
		}
		next[ev.Dir] = ev.Offset + uint64(ev.Len)
		if ev.Kind == decode.KindFPDU {
			got = append(got, frameAt{ev.Dir, ev.Offset + shift[ev.Dir], ev.RDMAP.Op.String(), ev.Len})
			if ev.Err != nil && !errors.Is(ev.Err, decode.ErrUnseen) && !errors.Is(ev.Err, decode.ErrNoCall) && !errors.Is(ev.Err, decode.ErrNotPlaced) {
				t.Errorf("%v", ev)
			}
		}
	})
	if l.joined {
		c.Join(decode.FromOpener)
		c.Join(decode.FromAccepter)
	}
	var at [2]uint64
	for _, p := range pieces {
		for b := p.b; len(b) > 0; {
			n := min(len(b), 1448)
			from, to, off := int(l.from[p.dir]), int(l.to[p.dir]), int(at[p.dir])
			before := min(max(from-off, 0), n) // octets of the packet that are there
			behind := min(max(to-off, 0), n)   // and those from here on
			c.Octets(p.dir, b[:before], decode.Stamp{Frame: 1})
			if !l.joined && from < to && off <= from && from < off+n {
				c.Hole(p.dir, to-from, decode.Stamp{Frame: 1})
			}
			c.Octets(p.dir, b[max(before, behind):n], decode.Stamp{Frame: 1})
			at[p.dir], b = at[p.dir]+uint64(n), b[n:]
		}
	}
	c.Finish()
	return got, c.Info
}

// wellFormed reports captures without the frames that were malformed on purpose.
func wellFormed(file string) bool {
	name := filepath.Base(file)
	return !strings.HasPrefix(name, "d-") && !strings.HasPrefix(name, "g-")
}

// TestResync: after octets that are missing, at the beginning or in the middle, each direction goes on with the
// first FPDU that is there whole, and finds all that follow; nothing else is taken for an FPDU.
func TestResync(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, seed))
	found, short := 0, 0
	for _, file := range captures(t) {
		if !wellFormed(file) {
			continue
		}
		for i, pieces := range conversations(t, file) {
			want, _ := replay(t, pieces, lost{})
			var size [2]uint64
			for _, p := range pieces {
				size[p.dir] += uint64(len(p.b))
			}
			for round := range 12 {
				l := lost{joined: round%2 == 0}
				for dir := range 2 {
					l.to[dir] = 1 + rnd.Uint64N(size[dir])
					if !l.joined && size[dir] < 64 {
						l.to[dir] = 0
					} else if !l.joined {
						l.from[dir] = 32 + rnd.Uint64N(size[dir]-32) // after the startup
						l.to[dir] = min(l.from[dir]+1+rnd.Uint64N(20000), size[dir])
					}
				}
				got, info := replay(t, pieces, l)
				for dir := range decode.Dir(2) {
					mine, theirs := select1(got, dir, l), select1(want, dir, l)
					if strings.HasPrefix(theirs, mine) || strings.HasSuffix(theirs, mine) {
						found++
					}
					switch n := strings.Count(theirs, "\n"); {
					case mine == theirs:
					case mine == "" && n < 3 && l.joined || strings.HasSuffix(theirs, mine) && n-strings.Count(mine, "\n") <= 2:
						short++ // too few to prove anything
					default:
						t.Errorf("seed %d: %s, connection %d, round %d, %v, %+v: got\n%.500s\nwant\n%.500s", seed, file, i+1, round, dir, l, mine, theirs)
					}
				}
				if l.joined && l.to[0] > 32 && l.to[1] > 32 && len(got) > 0 && (info.Unknown&decode.UnknownStartup == 0 || info.Foreign) {
					t.Errorf("%s, connection %d: Unknown %v, foreign %t", file, i+1, info.Unknown, info.Foreign)
				}
				if strings.Contains(file, "crc") && l.joined && len(got) > 3 && !info.CRC {
					t.Errorf("%s, connection %d: CRC not found", file, i+1)
				}
			}
		}
	}
	t.Logf("%d directions, %d of them with too few FPDUs", found, short)
	if short*4 > found {
		t.Errorf("of %d directions %d were not resumed at once", found, short)
	}
}

// select1 lists the FPDUs of one direction that do not touch what is lost.
func select1(all []frameAt, dir decode.Dir, l lost) string {
	var b strings.Builder
	for _, f := range all {
		if f.dir == dir && (f.off >= l.to[dir] || f.off+uint64(f.size) <= l.from[dir]) {
			fmt.Fprintf(&b, "%d %d %s\n", f.off, f.size, f.op)
		}
	}
	return b.String()
}

// TestForeignMiddle: other protocols are not taken for iWARP, however long they go on.
func TestForeignMiddle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	random := make([]byte, 3<<20)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	tagged := random[:1<<20] // full of octets that look like control octets
	tagged = append([]byte(nil), tagged...)
	for i := 2; i < len(tagged)-1; i += 4 {
		tagged[i], tagged[i+1] = 0x81, 0x40
	}
	for name, b := range map[string][]byte{
		"random": random, "zeros": make([]byte, 3<<20), "text": []byte(strings.Repeat("GET / HTTP/1.1\r\n", 1<<17)), "plausible": tagged,
	} {
		c := decode.NewConn(nil, func(ev *decode.Event) {
			if ev.Kind == decode.KindFPDU && name != "plausible" {
				t.Errorf("%s: %v", name, ev)
			}
			if ev.Kind == decode.KindUndecoded && !errors.Is(ev.Err, decode.ErrNotMPA) && name != "plausible" {
				t.Errorf("%s: %v", name, ev.Err)
			}
		})
		c.Join(decode.FromOpener)
		for len(b) > 0 {
			n := min(len(b), 1460)
			c.Octets(decode.FromOpener, b[:n], decode.Stamp{Frame: 1})
			if n, _, _ := c.Kept(0); n > 512<<10 {
				t.Fatalf("%s: %d octets kept", name, n)
			}
			b = b[n:]
		}
		if _, _, lost := c.Kept(0); name != "plausible" && (!c.Info.Foreign || !lost) {
			t.Errorf("%s: foreign %t, lost %t", name, c.Info.Foreign, lost)
		}
		c.Finish()
	}
}

// TestJoinedStartup: a stream whose SYN is missing may still begin with its startup frame.
func TestJoinedStartup(t *testing.T) {
	var lines []string
	c := decode.NewConn(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
	for _, p := range startup(true) {
		c.Join(p.dir)
		c.Octets(p.dir, p.b, decode.Stamp{Frame: 1})
	}
	if len(lines) != 2 || c.Info.Unknown != 0 || c.Info.Request == nil || c.Info.Reply == nil {
		t.Errorf("%q %v", lines, c.Info.Unknown)
	}
}

// TestSkip: an FPDU whose middle is missing shows where the next one begins.
func TestSkip(t *testing.T) {
	// No CRC, so that one FPDU alone proves nothing.
	fpdu := unhex(t, "001741430000000000000000000000010000000048454c4c4f00000000000000")
	next := mpa.AppendFPDU(nil, append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0}, "bye"...), false)
	for from := 2; from < len(fpdu); from++ {
		for to := from + 1; to <= len(fpdu); to++ {
			var lines []string
			c := decode.NewConn(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
			for _, p := range startup(false) {
				c.Octets(p.dir, p.b, decode.Stamp{Frame: 1})
			}
			c.Octets(decode.FromOpener, fpdu[:from], decode.Stamp{Frame: 2})
			c.Hole(decode.FromOpener, to-from, decode.Stamp{Frame: 3})
			c.Octets(decode.FromOpener, fpdu[to:], decode.Stamp{Frame: 3})
			c.Octets(decode.FromOpener, next, decode.Stamp{Frame: 4})
			if _, n, _ := c.Kept(decode.FromOpener); n > 0 {
				t.Fatalf("octets %d to %d: searched", from, to)
			}
			last := lines[len(lines)-1]
			if !strings.HasSuffix(last, "Send qn=0 msn=2 mo=0 len=3 last") || c.Info.Unknown != decode.UnknownHole {
				t.Fatalf("octets %d to %d: %q, %v", from, to, lines, c.Info.Unknown)
			}
		}
	}
}

// TestStrays: four octets now and then between FPDUs, like markers that the capture does not announce, are
// left out, and not taken for anything else.
func TestStrays(t *testing.T) {
	var lines []string
	c := decode.NewConn(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
	c.Join(decode.FromOpener)
	var b []byte
	for msn := byte(7); msn < 20; msn++ {
		b = mpa.AppendFPDU(b, append([]byte{0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0}, "hello"...), false)
		if msn%5 == 0 {
			b = append(b, 0, 0, 0, 0)
		}
	}
	c.Octets(decode.FromOpener, b, decode.Stamp{Frame: 1})
	c.Close(decode.FromOpener, false, decode.Stamp{Frame: 2})
	all := strings.Join(lines, "\n")
	if strings.Count(all, "Send qn=0") != 13 || strings.Count(all, "4 octets not decoded !! the capture begins in the middle") != 2 || len(lines) != 16 {
		t.Error(all)
	}
}
