package judge_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
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
