package judge_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"os"
	"slices"
	"testing"
)

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
