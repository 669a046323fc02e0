package judge_test

import (
	"bytes"
	"slices"
)

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
