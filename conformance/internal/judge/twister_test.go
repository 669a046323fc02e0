package judge_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

var (
	twistEach  = flag.Int("twist.each", 1, "TestTwister: how many mutants of a kind in each connection, and of how many dozen connections of a capture")
	twistSeed  = flag.Uint64("twist.seed", 1, "TestTwister: seed")
	twistFiles = flag.String("twist.files", "", "TestTwister: more captures, a `PATTERN`")
)

// mutant is one change that a document decides to be wrong, whatever the sender meant.
type mutant struct {
	kind  string
	at    int           // unit
	dir   int           // who is made to be wrong
	do    func(t *talk) // on a clone
	fatal bool          // the receiver is wrong, too: it has gone on
}

// msn is where an untagged header has its MSN; the header follows the length of the FPDU.
const qn, msn, mo, body = 8, 12, 16, 20

// mutants returns what can be twisted in a connection.
func mutants(t *talk) (all []mutant) {
	calls, replies, served := map[uint32]call{}, map[uint32]int{}, map[[3]uint32]bool{}
	last := [2]map[uint32]int{{}, {}} // the last unit of a queue
	for i := range t.units {
		if u := t.units[i].u(); len(u) >= 18 && u[0]&0x80 == 0 {
			last[t.units[i].dir][be.Uint32(u[6:])] = i
		}
	}
	answered := func(i int) bool { // by RPC-over-RDMA, so that the peer has taken unit i
		u := t.units[i].u()
		return slices.ContainsFunc(t.units[i+1:], func(x unit) bool {
			b := x.u()
			return x.dir != t.units[i].dir && len(u) >= 46 && be.Uint32(u[22:]) == 1 && be.Uint32(u[30:]) < 5 && len(b) >= 38 && b[0]&0x80 == 0 &&
				b[1]&15 >= 3 && b[1]&15 <= 6 && bytes.Equal(b[18:26], u[18:26]) && be.Uint32(b[30:]) < 5
		})
	}
	for i := range t.units {
		x := &t.units[i]
		add := func(kind string, fatal bool, do func(t *talk, x *unit)) {
			all = append(all, mutant{kind, i, x.dir, func(t *talk) { do(t, &t.units[i]) }, fatal})
		}
		set := func(kind string, at int, v byte, fatal bool) {
			add(kind, fatal, func(t *talk, x *unit) { x.b[at] = v; t.seal(x) })
		}
		word := func(kind string, at int, v uint32) {
			if be.Uint32(x.b[at:]) != v {
				add(kind, false, func(t *talk, x *unit) { be.PutUint32(x.b[at:], v); t.seal(x) })
			}
		}
		swap := func(kind string, k int) {
			if k < len(t.units) && t.units[k].dir != x.dir && t.units[k].end == 0 {
				add(kind, false, func(t *talk, _ *unit) { t.units[i], t.units[k] = t.units[k], t.units[i] })
			}
		}
		switch {
		case x.startup && len(x.b) >= 20 && i < 2:
			startups(x, set)
			if swap("reply before the request", 1-i); x.dir == 1 && i == 1 {
				swap("fpdu before the reply", 2)
			}
			if f := slices.IndexFunc(t.units[i+1:], func(y unit) bool { return y.dir == x.dir && y.u() != nil }); f >= 0 {
				set("private data longer", 19, x.b[19]+4, false)
				add("startup repeated", false, func(t *talk, x *unit) { t.units = slices.Insert(t.units, i, *x) })
			}
			continue
		case i == 2 && x.dir == 0:
			swap("responder first", 3)
		}
		if e := slices.IndexFunc(t.units[i+1:], func(y unit) bool { return y.dir == x.dir }); e >= 0 && t.units[i+1+e].end == 'F' && x.u() != nil {
			add("fpdu cut by FIN", false, func(_ *talk, x *unit) { x.b = x.b[:len(x.b)-6] })
		}
		u := x.u()
		if len(u) < 14 {
			continue
		}
		if n := len(x.b) - 4; n > 2+len(u) {
			set("pad", n-1, 0xa5, false)
		}
		more := slices.ContainsFunc(t.units[i+1:], func(y unit) bool { return y.dir == x.dir && y.u() != nil })
		if t.crc {
			add("crc", answered(i), func(_ *talk, x *unit) { x.b[len(x.b)-1] ^= 0x40 })
		}
		if more {
			add("fpdu length", false, func(t *talk, x *unit) { x.b[1] ^= 8 })
		}
		tagged, op := u[0]&0x80 != 0, u[1]&15
		fatal := !tagged && answered(i)
		set("ddp reserved", 2, u[0]|0x10, false)
		set("ddp version", 2, u[0]&^3|2, fatal)
		set("rdmap version", 3, u[1]&^0xc0|0x80, fatal)
		set("rdmap reserved", 3, u[1]|0x20, false)
		set("opcode undefined", 3, u[1]&0xf0|0x0f|0x10, false)
		if !tagged || len(u) < 18 {
			set("opcode of another queue", 3, u[1]&0xf0|map[bool]byte{true: 3, false: 1}[op == 1 || tagged], fatal)
		}
		if tagged {
			set("opcode untagged", 3, u[1]&0xf0|3, false)
			taggeds(t, i, add)
			continue
		}
		if len(u) < 18 {
			continue
		}
		q := be.Uint32(u[6:])
		word("queue 4", qn, 4)
		all[len(all)-1].fatal = fatal
		word("another queue", qn, (q+1)%3)
		word("msn ahead", msn, be.Uint32(u[10:])+1)
		all[len(all)-1].fatal = fatal
		word("msn behind", msn, be.Uint32(u[10:])-1)
		word("mo", mo, be.Uint32(u[14:])+4)
		if op != 4 && op != 6 {
			word("ulp field", 4, 0xabad1dea)
		}
		if i < last[x.dir][q] && u[0]&0x40 != 0 {
			set("last lost", 2, u[0]&^0x40, false)
		}
		if u[0]&0x40 == 0 {
			set("last too early", 2, u[0]|0x40, false)
		}
		if i < last[x.dir][q] {
			add("fpdu lost", false, func(t *talk, x *unit) { t.units = slices.Delete(t.units, i, i+1) })
		}
		add("fpdu repeated", false, func(t *talk, x *unit) { t.units = slices.Insert(t.units, i, *x) })
		if i+1 < len(t.units) {
			if y := t.units[i+1].u(); t.units[i+1].dir == x.dir && len(y) > 18 && y[0]&0x80 == 0 && be.Uint32(y[6:]) == q {
				add("fpdus exchanged", false, func(t *talk, x *unit) { t.units[i], t.units[i+1] = t.units[i+1], t.units[i] })
			}
		}
		switch {
		case op == 1 && len(u) == 46:
			resize(add, "read request of 24 octets", -4)
			resize(add, "read request of 32 octets", 4)
			if be.Uint32(u[18+12:]) > 0 && readAnswered(t, i) {
				word("read size", 2+18+12, be.Uint32(u[18+12:])+4)
				word("read sink", 2+18, be.Uint32(u[18:])^0x5500)
				word("read sink offset", 2+18+8, be.Uint32(u[18+8:])^0x4000)
			}
		case op == 7 && len(u) >= 22:
			add("frame after terminate", false, func(t *talk, x *unit) {
				y := *x
				y.b = bytes.Clone(x.b)
				be.PutUint32(y.b[msn:], be.Uint32(y.b[msn:])+1)
				t.seal(&y)
				t.units = slices.Insert(t.units, i+1, y)
			})
			set("terminate reserved", 2+18+3, 1, false)
			set("terminate layer", 2+18, 0x50, false)
			if u[18]&15 != 0 { // otherwise any code will do
				set("terminate code", 2+18+1, 0x77, false)
			}
		case op >= 3 && op <= 6 && u[0]&0x40 != 0 && be.Uint32(u[14:]) == 0:
			messages(t, i, calls, replies, served, word, add)
		}
	}
	return all
}

// startups twists a Request or a Reply.
func startups(x *unit, set func(string, int, byte, bool)) {
	f, reply := x.b[16], x.dir == 1
	set("startup key", 3, 'X', false)
	set("startup reserved", 16, f|0x04, false)
	set("startup revision", 17, 3, false)
	set("private data beyond 512", 18, 0x40, false)
	if !reply {
		set("R in a Request", 16, f|0x20, false)
		return
	}
	if f&0x20 != 0 || len(x.b) < 24 || f&0x10 == 0 {
		return
	}
	set("S not echoed", 16, f&^0x10, false)
	set("A of its own", 20, x.b[20]^0x80, false)
	if x.b[22]&0x3f < 0x3f {
		set("ord above ird", 22, x.b[22]&0xc0|0x3e, false)
	}
}

// taggeds twists a segment of an RDMA Write or a Read Response.
func taggeds(t *talk, i int, add func(string, bool, func(*talk, *unit))) {
	x := &t.units[i]
	u := x.u()
	of := [2]string{"write", "read response"}[u[1]&2>>1]
	same := func(y *unit, last bool) bool {
		b := y.u()
		return y.dir == x.dir && len(b) > 14 && b[0]&0x80 != 0 && b[1]&15 == u[1]&15 && bytes.Equal(b[2:6], u[2:6]) && last == (b[0]&0x40 != 0)
	}
	if len(u) == 14 || u[1]&15 > 2 {
		return
	}
	open := u[0]&0x40 == 0
	next := slices.IndexFunc(t.units[i+1:], func(y unit) bool { return y.dir == x.dir && y.u() != nil && y.u()[0]&0x80 != 0 })
	if of == "read response" || open || offered(t, i) {
		add(of+" stag", false, func(t *talk, x *unit) { x.b[5] ^= 0x55; t.seal(x) })
		add(of+" offset", false, func(t *talk, x *unit) { x.b[8] ^= 0x40; t.seal(x) })
	}
	if of == "read response" || open {
		resize(add, of+" short", -4)
	}
	if of == "read response" {
		resize(add, of+" long", 4)
	}
	if open && next >= 0 && same(&t.units[i+1+next], false) {
		add(of+" segments exchanged", false, func(t *talk, x *unit) { t.units[i], t.units[i+1+next] = t.units[i+1+next], t.units[i] })
	}
	before := slices.IndexFunc(t.units[:i], func(y unit) bool {
		return same(&y, false) && be.Uint64(y.u()[6:])+uint64(len(y.u())-14) == be.Uint64(u[6:])
	})
	if open && (before >= 0 || of == "read response" || offered(t, i)) { // otherwise it may be meant to begin later
		add(of+" segment lost", false, func(t *talk, x *unit) { t.units = slices.Delete(t.units, i, i+1) })
	}
	if of == "read response" && !open {
		add(of+" again", false, func(t *talk, x *unit) { t.units = slices.Insert(t.units, i, *x) })
		set := func(t *talk, x *unit) { x.b[2] &^= 0x40; t.seal(x) }
		if next >= 0 {
			add(of+" without an end", false, set)
		}
	}
}

// resize makes the payload of a frame longer or shorter.
func resize(add func(string, bool, func(*talk, *unit)), kind string, n int) {
	add(kind, false, func(t *talk, x *unit) {
		u := x.u()
		if n < 0 {
			u = u[:len(u)+n]
		} else {
			u = append(bytes.Clone(u), make([]byte, n)...)
		}
		t.frame(x, u)
	})
}

// readAnswered reports whether a Read Response follows.
func readAnswered(t *talk, i int) bool {
	u := t.units[i].u()
	return slices.ContainsFunc(t.units[i+1:], func(y unit) bool {
		b := y.u()
		return y.dir != t.units[i].dir && len(b) > 14 && b[0]&0x80 != 0 && b[1]&15 == 2 && bytes.Equal(b[2:6], u[18:22])
	})
}

// found returns what the judge finds in a conversation: violations that count, by who, rule and detail; the units in
// which a rule of MPA is broken; and what it does not know.
func found(t *testing.T, c *talk) (all map[string]int, spoilt map[int]bool, unknown []string) {
	t.Helper()
	b, frames := c.capture()
	r, err := judge.File(bytes.NewReader(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, spoilt = make(map[string]int), make(map[int]bool)
	for _, v := range r.Violations {
		if v.Rule.Severity != judge.Note {
			all[fmt.Sprintf("%d %s %s", v.Dir, v.Rule.ID, v.Detail)]++
		}
		if v.Rule.Layer() == "MPA" && v.Rule.Severity == judge.Error {
			spoilt[slices.Index(frames, v.Frame)] = true
		}
	}
	return all, spoilt, r.Reasons()
}

// missed are the kinds of which not all are noticed, and why.
var missed = map[string]string{
	"call RDMA_MSGP":                    "what stands where its lists are now may be lists",
	"private data longer":               "the frame that it swallows was wrong already",
	"reply before the request":          "the Reply was wrong already",
	"reply GARBAGE_ARGS":                "the arguments of a COMPOUND are skipped, not decoded",
	"reply invalidates what it may not": "the reply grants no credits, which is its mistake",
	"reply of 4 octets less":            "a refusal that is wrong as a whole is one mistake",
	"reply of 4 octets more":            "as above",
	"reply verifier of AUTH_SYS":        "as above",
}

// TestTwister: the judge notices nearly every mutant of real conversations, and all of most kinds.
func TestTwister(t *testing.T) {
	files, err := filepath.Glob("../../testdata/pcaps/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(*twistFiles)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(*twistSeed, 0))
	noticed, made := make(map[string]int), make(map[string]int)
	for _, file := range append(files, more...) {
		for n, c := range conversations(t, file) {
			if n >= 12**twistEach {
				break // many are alike
			}
			base, spoilt, _ := found(t, c)
			if slices.ContainsFunc(slices.Collect(maps.Keys(base)), func(s string) bool {
				return strings.Contains(s, " DDP-") || strings.Contains(s, " RDMAP-")
			}) {
				continue // what follows a mistake there is a consequence, or is not judged
			}
			byKind := make(map[string][]mutant)
			for _, m := range mutants(c) {
				if spoilt[m.at] {
					continue // a frame with a mistake has one, whatever else is wrong in it
				}
				byKind[m.kind] = append(byKind[m.kind], m)
				if m.fatal {
					byKind["goes on after: "+m.kind] = append(byKind["goes on after: "+m.kind], m)
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(byKind)) {
				for range min(*twistEach, len(byKind[kind])) {
					m := byKind[kind][r.IntN(len(byKind[kind]))]
					x := c.clone()
					m.do(x)
					now, _, unknown := found(t, x)
					made[kind]++
					dir := ""
					if strings.HasPrefix(kind, "goes on") {
						dir = fmt.Sprint(1 - m.dir)
					}
					seen := slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(s string) bool {
						return now[s] > base[s] && strings.HasPrefix(s, dir)
					})
					if seen {
						noticed[kind]++
						continue
					}
					say := t.Logf
					if missed[kind] == "" {
						say = t.Errorf
					}
					say("%s talk %d: %s by %d in unit %d: %v %v", filepath.Base(file), n, kind, m.dir, m.at, slices.Sorted(maps.Keys(now)), unknown)
				}
			}
		}
	}
	sum, all := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(made)) {
		sum, all = sum+noticed[kind], all+made[kind]
		t.Logf("%-40s %4d of %4d", kind, noticed[kind], made[kind])
	}
	t.Logf("seed %d: %d of %d mutants noticed, %.1f %%", *twistSeed, sum, all, 100*float64(sum)/float64(all))
	if all < 500 || sum*100 < all*98 {
		t.Errorf("%d of %d", sum, all)
	}
}

// The twister reads captures with an idea of their fields that it has from the RFCs alone, not from the decoder: what
// both misread the same way would stay unseen. It needs no more than plain captures: pcap, Ethernet, IPv4.

var be = binary.BigEndian

// unit is a start-up frame, an FPDU, or what is left at the end of a stream; or the end of a direction.
type unit struct {
	dir     int // 0: from the opener
	b       []byte
	startup bool
	end     byte // 'F', 'R'; 0: octets
	done    int  // the packet that completed it
}

// talk is one connection: its units, in the order in which they were complete.
type talk struct {
	name  string
	crc   bool
	syn   bool
	units []unit
}

// conversations returns the connections of a capture that begin with an MPA Request, have no markers, and lack no octets.
func conversations(t testing.TB, file string) (all []*talk) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if be.Uint32(b) != 0xd4c3b2a1 || b[20] != 1 {
		t.Fatalf("%s is not the kind of capture that the twister reads", file)
	}
	type half struct {
		next   uint32
		known  bool
		stream []byte
		ends   [][2]int // how long the stream was after a packet
	}
	type flow struct {
		half [2]half
		syn  bool
		bad  bool
		tail []unit
	}
	flows, order := make(map[string]*flow), []string(nil)
	for n, at := 1, 24; at+16 <= len(b); n++ {
		size := int(binary.LittleEndian.Uint32(b[at+8:]))
		p := b[at+16 : at+16+size]
		at += 16 + size
		if len(p) < 54 || be.Uint16(p[12:]) != 0x0800 || p[23] != 6 {
			continue
		}
		ip := p[14 : 14+be.Uint16(p[16:])]
		tcp := ip[ip[0]&15*4:]
		a, z := string(ip[12:16])+string(tcp[:2]), string(ip[16:20])+string(tcp[2:4])
		key, dir := a+z, 0
		if flows[z+a] != nil && flows[key] == nil {
			key, dir = z+a, 1
		}
		f := flows[key]
		if f == nil {
			f = new(flow)
			flows[key], order = f, append(order, key)
		}
		h, seq, data, flags := &f.half[dir], be.Uint32(tcp[4:]), tcp[tcp[12]>>4*4:], tcp[13]
		if flags&2 != 0 {
			f.bad = f.bad || len(h.stream) > 0 // the ports are used again
			f.syn, h.known, h.next = true, true, seq+1
			continue
		}
		if !h.known {
			h.known, h.next = true, seq
		}
		if old := int(int32(h.next - seq)); old > 0 && len(data) > 0 {
			data = data[min(old, len(data)):]
		} else if old < 0 && len(data) > 0 {
			f.bad = true
		}
		if len(data) > 0 {
			h.stream, h.next = append(h.stream, data...), h.next+uint32(len(data))
			h.ends = append(h.ends, [2]int{len(h.stream), n})
		}
		if flags&5 != 0 {
			f.tail = append(f.tail, unit{dir: dir, end: map[bool]byte{true: 'R', false: 'F'}[flags&4 != 0], done: n})
		}
	}
	for _, key := range order {
		f := flows[key]
		t := &talk{name: file, syn: f.syn}
		if f.bad || !bytes.HasPrefix(f.half[0].stream, []byte("MPA ID Req Frame")) || len(f.half[1].stream) < 20 {
			continue
		}
		marked := false
		for dir := range f.half {
			h := &f.half[dir]
			for at, first := 0, true; at < len(h.stream); first = false {
				rest := h.stream[at:]
				n := 2
				switch {
				case first && len(rest) >= 20:
					n = 20 + int(be.Uint16(rest[18:]))
					marked, t.crc = marked || rest[16]&0x80 != 0, t.crc || rest[16]&0x40 != 0
				case len(rest) >= 2:
					n = (2+int(be.Uint16(rest))+3)&^3 + 4
				}
				n = min(n, len(rest))
				e := slices.IndexFunc(h.ends, func(e [2]int) bool { return e[0] >= at+n })
				t.units = append(t.units, unit{dir: dir, b: rest[:n:n], startup: first, done: h.ends[e][1]})
				at += n
			}
		}
		t.units = append(t.units, f.tail...)
		slices.SortStableFunc(t.units, func(a, b unit) int { return cmp.Compare(a.done, b.done) })
		if !marked {
			all = append(all, t)
		}
	}
	return all
}

// clone returns a copy that may be changed.
func (t *talk) clone() *talk {
	c := *t
	c.units = slices.Clone(t.units)
	for i := range c.units {
		c.units[i].b = bytes.Clone(c.units[i].b)
	}
	return &c
}

// u returns the ULPDU of a unit, or nil: at most as long as its FPDU.
func (x *unit) u() []byte {
	if x.startup || x.end != 0 || len(x.b) < 8 || (2+int(be.Uint16(x.b))+3)&^3+4 != len(x.b) {
		return nil
	}
	return x.b[2 : 2+be.Uint16(x.b)]
}

// frame makes a unit the FPDU of a ULPDU.
func (t *talk) frame(x *unit, u []byte) {
	b := append(be.AppendUint16(nil, uint16(len(u))), u...)
	b = append(b, make([]byte, -len(b)&3)...)
	x.b = append(b, 0, 0, 0, 0)
	t.seal(x)
}

// seal makes the CRC of an FPDU right.
func (t *talk) seal(x *unit) {
	if n := len(x.b) - 4; t.crc && !x.startup {
		binary.LittleEndian.PutUint32(x.b[n:], crc32.Checksum(x.b[:n], crc32.MakeTable(crc32.Castagnoli)))
	}
}

// capture writes the connection as if each unit had been sent by itself, and says in which packet each begins.
func (t *talk) capture() (out []byte, frames []int) {
	out = []byte{0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1}
	seq, sec := [2]uint32{1000, 2000}, uint32(0)
	send := func(dir int, flags byte, data []byte) {
		ends := [2][]byte{{10, 0, 0, 1, 0xa0, 0}, {10, 0, 0, 2, 0x4e, 0x51}}
		from, to := ends[dir], ends[1-dir]
		tcp := append(append(append([]byte(nil), from[4:]...), to[4:]...), make([]byte, 16)...)
		be.PutUint32(tcp[4:], seq[dir])
		be.PutUint32(tcp[8:], seq[1-dir])
		tcp[12], tcp[13], tcp[14] = 0x50, flags, 0xff
		tcp = append(tcp, data...)
		pseudo := append(append([]byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}, from[:4]...), to[:4]...)
		be.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
		ip := []byte{0x45, 0, byte((20 + len(tcp)) >> 8), byte(20 + len(tcp)), 0, 0, 0x40, 0, 64, 6, 0, 0}
		ip = append(append(ip, from[:4]...), to[:4]...)
		be.PutUint16(ip[10:], checksum(ip))
		p := append(append(append(make([]byte, 12), 8, 0), ip...), tcp...)
		sec++
		for _, w := range []uint32{sec, 0, uint32(len(p)), uint32(len(p))} {
			out = be.AppendUint32(out, w)
		}
		out = append(out, p...)
		if seq[dir] += uint32(len(data)); flags&3 != 0 {
			seq[dir]++
		}
	}
	if t.syn {
		send(0, 0x02, nil)
		send(1, 0x12, nil)
		send(0, 0x10, nil)
	}
	for _, x := range t.units {
		frames = append(frames, int(sec)+1)
		switch x.end {
		case 'F':
			send(x.dir, 0x11, nil)
		case 'R':
			send(x.dir, 0x14, nil)
		}
		for b := x.b; len(b) > 0; {
			n := min(len(b), 32<<10)
			send(x.dir, 0x18, b[:n])
			b = b[n:]
		}
	}
	return out, frames
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i]) << 8
		if i+1 < len(b) {
			s += uint32(b[i+1])
		}
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// call is what a reply must fit.
type call struct {
	prog, vers, proc uint32
	reads            []uint32 // handles that it offers for reading
}

// lists is where the lists of an RPC-over-RDMA header are, as offsets in the message.
type lists struct {
	flags  []int // discriminators
	read   []int // entries: position, handle, length, offset (2)
	counts []int // of segments
	write  []int // segments: handle, length, offset (2)
	reply  []int
	end    int
	rpc    int // where the RPC message begins; 0: none here
}

// walk reads the lists of a message: RFC 8166 Section 4.3. ok is false if they are cut.
func walk(m []byte) (l lists, ok bool) {
	at := 16
	word := func() uint32 {
		if at+4 > len(m) {
			at = len(m) + 1
			return 0
		}
		at += 4
		return be.Uint32(m[at-4:])
	}
	flag := func() bool { l.flags = append(l.flags, at); return word() == 1 }
	segments := func(to *[]int) {
		l.counts = append(l.counts, at)
		for n := word(); n > 0 && at <= len(m); n-- {
			*to = append(*to, at)
			at += 16
		}
	}
	for flag() {
		l.read = append(l.read, at)
		at += 20
	}
	for flag() {
		segments(&l.write)
	}
	if flag() {
		segments(&l.reply)
	}
	if l.end = at; at > len(m) {
		return l, false
	}
	if be.Uint32(m[12:]) == 0 {
		l.rpc = at
	}
	return l, true
}

// offered reports whether the peer has offered the memory that a Write touches, and speaks RPC-over-RDMA.
func offered(t *talk, i int) bool {
	u := t.units[i].u()
	return slices.ContainsFunc(t.units[:i], func(y unit) bool {
		b := y.u()
		if y.dir == t.units[i].dir || len(b) < 18+28 || b[0]&0xc0 != 0x40 || b[1]&15 != 3 {
			return false
		}
		l, ok := walk(b[18:])
		return ok && slices.ContainsFunc(append(l.write, l.reply...), func(at int) bool { return bytes.Equal(b[18+at:18+at+4], u[2:6]) })
	})
}

// messages twists a Send that is a whole message of RPC-over-RDMA.
func messages(t *talk, i int, calls map[uint32]call, replies map[uint32]int, served map[[3]uint32]bool, word func(string, int, uint32), add func(string, bool, func(*talk, *unit))) {
	x := &t.units[i]
	m := x.u()[18:]
	if len(m) < 28 || be.Uint32(m[4:]) != 1 || be.Uint32(m[12:]) > 1 {
		return
	}
	l, ok := walk(m)
	if !ok {
		return
	}
	xid, isCall := be.Uint32(m), x.dir == 0
	if l.rpc > 0 && len(m) >= l.rpc+12 && be.Uint32(m[l.rpc:]) != xid {
		return // not RPC
	}
	who := map[bool]string{true: "call ", false: "reply "}[isCall]
	at := func(kind string, off int, v uint32) { word(who+kind, 2+18+off, v) }
	c, known := calls[xid]
	if !isCall && !known {
		return
	}
	_, again := replies[xid]
	answered := slices.ContainsFunc(t.units[i+1:], func(y unit) bool {
		b := y.u()
		return y.dir == 1 && len(b) >= 18+28 && b[0]&0x80 == 0 && b[1]&15 >= 3 && b[1]&15 <= 6 && be.Uint32(b[18:]) == xid
	})
	if isCall {
		c = call{}
		for _, e := range l.read {
			c.reads = append(c.reads, be.Uint32(m[e+4:]))
		}
		if l.rpc > 0 && len(m) >= l.rpc+24 {
			c.prog, c.vers, c.proc = be.Uint32(m[l.rpc+12:]), be.Uint32(m[l.rpc+16:]), be.Uint32(m[l.rpc+20:])
		}
		calls[xid] = c
	}
	if isCall && !answered || again {
		return
	}
	if y := t.units[i-1].u(); isCall && l.rpc > 0 && t.units[i-1].dir == 0 && len(y) >= 46 && y[0]&0x80 == 0 && be.Uint32(y[18:]) != xid {
		add("xid of another call", false, func(t *talk, x *unit) {
			copy(x.b[20:24], y[18:22])
			copy(x.b[20+l.rpc:], y[18:22])
			t.seal(x)
		})
	}
	at("rdma_vers", 4, 2)
	at("credits 0", 8, 0)
	at("rdma_proc", 12, 7)
	at("rdma_proc exchanged", 12, 1-be.Uint32(m[12:]))
	at("RDMA_DONE", 12, 3)
	at("RDMA_MSGP", 12, 2)
	at("RDMA_ERROR", 12, 4)
	if x.u()[1]&15 == 3 {
		add(who+"invalidates what it may not", false, func(t *talk, x *unit) {
			x.b[3]++
			be.PutUint32(x.b[4:], 0x12345678)
			t.seal(x)
		})
	}
	at("list discriminator", l.flags[len(l.flags)-1], 2)
	at("first discriminator", l.flags[0], 2)
	if l.rpc > 0 {
		at("rdma_xid", 0, xid^0x10101)
	}
	if len(l.counts) > 0 {
		at("segment count", l.counts[0], be.Uint32(m[l.counts[0]:])+1)
	}
	if isCall {
		for k, e := range l.read {
			if touched(t, i, m[e+4:], true) {
				at("read handle", e+4, be.Uint32(m[e+4:])^0x77)
				at("read length", e+8, 1)
				at("read offset", e+12, be.Uint32(m[e+12:])^0x4000)
			}
			if k == 0 && l.rpc > 0 {
				at("read position", e, be.Uint32(m[e:])+1)
				at("read position far", e, 1<<20)
				at("read position 0", e, 0)
			}
		}
		for _, e := range append(l.write, l.reply...) {
			if touched(t, i, m[e:], false) {
				at("write handle", e, be.Uint32(m[e:])^0x77)
				at("write length", e+4, 1)
				at("write offset", e+8, be.Uint32(m[e+8:])^0x4000)
			}
		}
	} else {
		replies[xid] = i
		for _, e := range append(l.write, l.reply...) {
			at("chunk handle", e, be.Uint32(m[e:])^0x77)
			at("chunk offset", e+8, be.Uint32(m[e+8:])^0x4000)
			at("chunk length", e+4, 1<<24)
		}
		if e := append(l.write, l.reply...); len(e) > 1 && e[1] == e[0]+16 {
			add("segments exchanged", false, func(t *talk, x *unit) {
				a, b := x.b[20+e[0]:20+e[0]+16], x.b[20+e[1]:20+e[1]+16]
				was := bytes.Clone(a)
				copy(a, b)
				copy(b, was)
				t.seal(x)
			})
		}
		if l.rpc > 0 {
			add("reply of an unknown call", false, func(t *talk, x *unit) {
				be.PutUint32(x.b[20:], xid^0x3333)
				be.PutUint32(x.b[20+l.rpc:], xid^0x3333)
				t.seal(x)
			})
		}
		add("reply twice", false, func(t *talk, x *unit) {
			y := unit{dir: x.dir, b: bytes.Clone(x.b)}
			t.units = slices.Insert(t.units, i+1, y)
			renumber(t, i+1)
		})
		first := slices.IndexFunc(t.units[:i], func(y unit) bool {
			b := y.u()
			return y.dir == 0 && len(b) > 22 && b[0]&0x80 == 0 && bytes.Equal(b[18:22], m[:4])
		})
		if w := first + slices.IndexFunc(t.units[first:i], func(y unit) bool {
			b := y.u()
			return y.dir == 1 && len(b) > 14 && b[0]&0xc0 == 0xc0 && b[1]&15 == 0 && slices.ContainsFunc(append(l.write, l.reply...), func(e int) bool { return bytes.Equal(m[e:e+4], b[2:6]) && be.Uint32(m[e+4:]) > 0 })
		}); w >= first {
			add("write after the reply", false, func(t *talk, x *unit) { t.units = slices.Insert(t.units, i+1, t.units[w]) })
			add("write lost", false, func(t *talk, x *unit) { t.units = slices.Delete(t.units, w, w+1) })
		}
		if r := first + slices.IndexFunc(t.units[first:i], func(y unit) bool {
			b := y.u()
			return y.dir == 1 && len(b) == 46 && b[1]&15 == 1 && slices.Contains(c.reads, be.Uint32(b[18+16:]))
		}); r >= first {
			add("read after the reply", false, func(t *talk, _ *unit) {
				t.units = slices.Insert(t.units, i+1, unit{dir: 1, b: bytes.Clone(t.units[r].b)})
				be.PutUint32(t.units[i+1].b[msn:], 0)
				for _, y := range t.units[:i+1] {
					if b := y.u(); y.dir == 1 && len(b) >= 18 && b[0]&0x80 == 0 && be.Uint32(b[6:]) == 1 {
						be.PutUint32(t.units[i+1].b[msn:], be.Uint32(b[10:])) // the last one so far
					}
				}
				renumber(t, i+1)
			})
		}
	}
	if x.u()[1]&15 == 4 && !isCall {
		add("invalidates another stag", false, func(t *talk, x *unit) { x.b[5] ^= 0x3c; t.seal(x) })
	}
	if l.rpc == 0 {
		return
	}
	if c.prog == 100003 || c.proc == 0 {
		resize(add, who+"of 4 octets less", -4)
		resize(add, who+"of 4 octets more", 4)
	}
	r := l.rpc
	at("msg_type", r+4, 2)
	if isCall {
		arguments(m, r, c, at, succeeds(t, i))
	} else {
		results(m, r, c, served, at)
	}
}

// renumber makes room for the untagged unit i, whose number is that of the one before it in its queue.
func renumber(t *talk, i int) {
	q := be.Uint32(t.units[i].u()[6:])
	for k := i; k < len(t.units); k++ {
		y := &t.units[k]
		if u := y.u(); y.dir == t.units[i].dir && len(u) >= 18 && u[0]&0x80 == 0 && be.Uint32(u[6:]) == q {
			be.PutUint32(y.b[msn:], be.Uint32(u[10:])+1)
			t.seal(y)
		}
	}
}

// touched reports whether the responder reads, or writes, the memory of the handle h begins with, after unit i.
func touched(t *talk, i int, h []byte, read bool) bool {
	return slices.ContainsFunc(t.units[i+1:], func(y unit) bool {
		b := y.u()
		switch {
		case y.dir == 0 || len(b) < 15:
		case read:
			return len(b) == 46 && b[0]&0x80 == 0 && b[1]&15 == 1 && bytes.Equal(b[18+16:18+20], h[:4])
		default:
			return b[0]&0x80 != 0 && b[1]&15 == 0 && bytes.Equal(b[2:6], h[:4])
		}
		return false
	})
}

// opaque returns where what follows an opaque at off begins.
func opaque(m []byte, off int) int {
	if off+4 > len(m) {
		return len(m)
	}
	return off + 4 + int(be.Uint32(m[off:])+3)&^3
}

// succeeds reports whether a call is answered by SUCCESS, inline.
func succeeds(t *talk, i int) bool {
	xid := t.units[i].u()[18:22]
	return slices.ContainsFunc(t.units[i+1:], func(y unit) bool {
		b := y.u()
		if y.dir == 0 || len(b) < 18+28 || b[0]&0x80 != 0 || b[1]&15 < 3 || !bytes.Equal(b[18:22], xid) {
			return false
		}
		l, ok := walk(b[18:])
		m := b[18:]
		if !ok || l.rpc == 0 || len(m) < l.rpc+24 || be.Uint32(m[l.rpc+8:]) != 0 {
			return false
		}
		at := opaque(m, l.rpc+16)
		return at+4 <= len(m) && be.Uint32(m[at:]) == 0
	})
}

// arguments twists a call: RFC 5531 Section 9, RFC 1813.
func arguments(m []byte, r int, c call, at func(string, int, uint32), succeeds bool) {
	if len(m) < r+40 {
		return
	}
	at("rpcvers", r+8, 3)
	at("credential of 404 octets", r+28, 404)
	verf := opaque(m, r+28)
	if be.Uint32(m[r+24:]) == 1 {
		at("machine name of 300 octets", r+36, 300)
		if n := be.Uint32(m[r+36:]); n&3 != 0 {
			at("pad of the machine name", opaque(m, r+36)-4, be.Uint32(m[opaque(m, r+36)-4:])|1)
		}
		if ids := opaque(m, r+36); ids+12 <= len(m) {
			at("17 groups", ids+8, 17)
		}
	}
	args := opaque(m, verf+4)
	if args > len(m) {
		return
	}
	at("verifier of 404 octets", verf+4, 404)
	if c.prog != 100003 || args+8 > len(m) {
		return
	}
	if succeeds {
		at("procedure 99", r+20, 99)
	}
	if c.vers == 3 && c.proc > 0 {
		at("file handle of 65 octets", args, 65)
	}
	if n := opaque(m, args); c.vers == 3 && c.proc == 7 && n+20 <= len(m) {
		at("count of WRITE", n+8, be.Uint32(m[n+8:])+1)
		at("stable of WRITE", n+12, 3)
		at("data of WRITE", n+16, be.Uint32(m[n+16:])+4)
	}
	if c.vers == 4 && c.proc == 1 {
		n := opaque(m, args)
		at("one more operation", n+4, be.Uint32(m[n+4:])+1)
		if succeeds {
			at("operation 999", n+8, 999)
		}
	}
}

// results twists a reply.
func results(m []byte, r int, c call, served map[[3]uint32]bool, at func(string, int, uint32)) {
	at("reply_stat", r+8, 2)
	if be.Uint32(m[r+8:]) != 0 {
		return
	}
	at("verifier of 404 octets", r+16, 404)
	at("verifier of AUTH_SYS", r+12, 1)
	stat := opaque(m, r+16)
	at("reply_stat denied", r+8, 1)
	at("accept_stat", stat, 6)
	at("PROG_MISMATCH", stat, 2)
	if served[[3]uint32{c.prog, c.vers, c.proc}] {
		at("PROC_UNAVAIL", stat, 3)
	}
	served[[3]uint32{c.prog, c.vers, c.proc}] = be.Uint32(m[stat:]) == 0
	at("GARBAGE_ARGS", stat, 4)
	res := stat + 4
	if be.Uint32(m[stat:]) != 0 || c.prog != 100003 || c.proc == 0 || res+8 > len(m) {
		return
	}
	at("status", res, 12345)
	if be.Uint32(m[res:]) != 0 {
		return
	}
	switch {
	case c.vers == 4:
		n := opaque(m, res+4)
		at("one more result", n, be.Uint32(m[n:])+1)
		at("result of another operation", n+4, be.Uint32(m[n+4:])+1)
	case c.proc == 1:
		at("type 9", res+4, 9)
		at("mode of 13 bits", res+8, 0x1fff)
		at("nanoseconds", res+4+84-4, 1e9)
	case slices.Contains([]uint32{2, 4, 5, 6, 7, 12, 13, 16, 17, 18, 19, 20, 21}, c.proc):
		at("attributes_follow 2", res+4, 2)
	case c.proc == 3:
		at("file handle of 65 octets", res+4, 65)
	}
	if n := res + 4 + 4 + 84; c.vers == 3 && c.proc == 4 && be.Uint32(m[res+4:]) == 1 && n+4 <= len(m) {
		at("rights not asked for", n, 0x40)
	}
	if n := res + 4 + 4 + 84; c.vers == 3 && c.proc == 6 && be.Uint32(m[res+4:]) == 1 && n+12 <= len(m) {
		at("count of READ", n, be.Uint32(m[n:])+1)
		at("eof 2", n+4, 2)
	}
}
