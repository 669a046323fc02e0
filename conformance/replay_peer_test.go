package main

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// plain is memory as it is.
type plain []byte

func (m plain) Bytes() []byte          { return m }
func (m plain) Persist(int, int) error { return region.ErrNotPersistent }
func (m plain) Close() error           { return nil }

func (r *replay) register(n int, base uint64, access region.Access) memory {
	m := memory{mem: make([]byte, max(n, 1)), want: make([]byte, max(n, 1)), base: base}
	var err error
	m.reg, err = r.engine.Table().RegisterMemory(plain(m.mem), region.Options{Access: access, Base: base})
	check(r.t, err)
	return m
}

// memory returns the engine's memory for a life; nil if no octet of it was touched.
func (r *replay) memory(l *life) *memory {
	if l.hi == 0 {
		return nil
	}
	if r.mems[l] == nil {
		m := r.register(int(l.hi-l.lo), l.lo, region.RemoteRead|region.RemoteWrite|region.RemoteInvalidate)
		r.mems[l], r.latest[l.stag] = &m, &m
	}
	return r.mems[l]
}

func (r *replay) compare(m *memory) {
	r.t.Helper()
	if !bytes.Equal(m.mem, m.want) {
		r.t.Fatalf("%s connection %d, %v: memory of %d octets holds octets other than those written", r.file, r.id, r.v, len(m.mem))
	}
}

// say makes the peer send m, with the engine's STag for mem in it.
func (r *replay) say(m *saying, mem *memory) {
	if r.v.recorded {
		for _, f := range m.fpdus {
			_, err := r.peer.Conn.Write(r.readdress(m, f, mem))
			r.check(err, "saying", m)
		}
		return
	}
	data, stag := m.data, m.stag
	if mem != nil {
		stag = ddp.STag(mem.reg.STag())
	}
	if m.op == verbs.OpReadRequest {
		data = bytes.Clone(data)
		binary.BigEndian.PutUint32(data[sourceSTagOff:], uint32(stag))
		if mem == nil {
			data = m.data
		}
	}
	var first ddp.Segment
	if m.op.Tagged() {
		first = r.peer.Tagged(uint8(m.op), stag, m.to)
	} else {
		first = r.peer.Untagged(uint8(m.op), m.op.Queue())
		if m.op.Invalidates() {
			first.ULP = uint32(stag)
		}
	}
	size := ddp.MaxPayload(m.op.Tagged(), siwMULPDU)
	for off := 0; off == 0 || off < len(data); off += size {
		s, end := first, min(off+size, len(data))
		if s.Tagged {
			s.TO += uint64(off)
		} else {
			s.MO = uint32(off)
		}
		s.Last = end == len(data)
		r.check(r.peer.SendSegment(s, data[off:end]), "saying", m)
	}
}

// sourceSTagOff is where the Source STag of a Read Request is, RFC 5040 Section 4.4.
const sourceSTagOff = 16

// readdress returns a recorded FPDU with the engine's STag in it, and so another CRC.
func (r *replay) readdress(m *saying, fpdu []byte, mem *memory) []byte {
	if mem == nil || m.op.IsSend() && !m.op.Invalidates() {
		return fpdu
	}
	f := bytes.Clone(fpdu)
	at := mpa.HeaderLen + 2 // STag of a tagged segment, and RsvdULP of an untagged one
	if m.op == verbs.OpReadRequest {
		at = mpa.HeaderLen + ddp.UntaggedLen + sourceSTagOff
	}
	binary.BigEndian.PutUint32(f[at:], uint32(mem.reg.STag()))
	if r.crc {
		f = f[:len(f)-mpa.CRCLen]
		f = mpa.AppendCRC(f, mpa.UpdateCRC(0, f))
	}
	return f
}

// expect reads the next message that the engine sends, which must be like m.
func (r *replay) expect(m *saying) (first ddp.Segment, payload []byte) {
	r.t.Helper()
	for n := 0; ; n++ {
		s, p, err := r.peer.NextSegment()
		r.check(err, "waiting for", m)
		if n == 0 {
			first = s
			if !s.Tagged {
				r.msn[s.QN]++
			}
		}
		if verbs.Opcode(s.Control&0x1f) != m.op || s.Tagged != m.op.Tagged() || !s.Tagged && (s.QN != m.op.Queue() || s.MSN != r.msn[s.QN]) {
			r.t.Fatalf("%s connection %d, %v: the engine said %v, want %v", r.file, r.id, r.v, &s, m.op)
		}
		if at := uint64(len(payload)); s.Tagged && s.TO != first.TO+at || !s.Tagged && uint64(s.MO) != at {
			r.t.Fatalf("segment %v at %d", &s, at)
		}
		if r.v.recorded && !r.handmade && (n >= len(m.fpdus) || len(p) != int(binary.BigEndian.Uint16(m.fpdus[n]))-s.HeaderLen()) {
			r.t.Fatalf("%v: FPDU %d has %d octets of payload; Linux cut otherwise", m.op, n, len(p))
		}
		payload = append(payload, p...)
		if s.Last {
			return first, payload
		}
	}
}

// again decodes the run with the decoder of captures, and compares it with the capture.
func (r *replay) again(events []rdmaptest.Event) {
	t := r.t
	re := newScriptReader(r.file, r.id)
	d := decode.NewConn(&decode.Options{ULP: decode.ULPOpaque}, re.event)
	for _, ev := range events {
		dir := r.side
		if ev.Out {
			dir = 1 - r.side
		}
		d.Octets(dir, ev.Data, decode.Stamp{})
	}
	re.finish()
	if re.skip != "" {
		t.Fatalf("the run cannot be decoded: %s", re.skip)
	}
	for _, dir := range []decode.Dir{decode.FromOpener, decode.FromAccepter} {
		for _, answers := range []bool{false, true} { // which may come in other places among the rest
			pick := func(all []*saying) []*saying {
				return slices.DeleteFunc(slices.Clone(all), func(m *saying) bool {
					return m.from != dir || answers != (m.op == verbs.OpReadResponse) || m.read != nil && m.answer == nil
				})
			}
			want, got := pick(r.said), pick(re.said)
			if !slices.EqualFunc(want, got, (*saying).like) {
				t.Fatalf("%s connection %d, %v, %v: %d messages in the run and %d in the capture, or different ones", r.file, r.id, r.v, dir, len(got), len(want))
			}
		}
	}
}

// like reports whether a and b say the same, except for the STags that each run chooses.
func (m *saying) like(o *saying) bool {
	if m.read != nil && o.read != nil {
		return m.op == o.op && m.read.Size == o.read.Size && m.read.SourceTO == o.read.SourceTO && m.read.SinkTO == o.read.SinkTO
	}
	return m.op == o.op && m.to == o.to && bytes.Equal(m.data, o.data)
}
