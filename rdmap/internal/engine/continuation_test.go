package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	followSegs = 8
	followLen  = 8 // octets of a segment
	followMem  = followSegs * followLen
)

// followed runs FPDUs of a tagged message through an engine whose memory ends with the message, one by
// one or not, and returns a description of the result.
func followed(t *testing.T, op verbs.Opcode, singly bool, spoil func(segs []ddp.Segment, fpdus [][]byte)) (log string, octets int) {
	e := newEngine(engineConfig{ord: 2, recvs: 1, mulpdu: engine.StagMULPDU})
	e.singly = singly
	size := followMem
	if op == verbs.OpReadResponse {
		size *= 2 // it is the request that ends with the message
	}
	mem, reg := e.register(t, size, region.RemoteWrite|region.ReadSink)
	_, other := e.register(t, followMem, region.RemoteWrite|region.ReadSink)
	if op == verbs.OpReadResponse {
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), Len: followMem})
		e.output()
	}
	segs := make([]ddp.Segment, followSegs)
	fpdus := make([][]byte, followSegs)
	for i := range segs {
		segs[i] = ddp.Segment{
			Tagged: true, Last: i == followSegs-1, Control: engine.ControlOctet(op),
			STag: ddp.STag(reg.STag()), TO: uint64(i * followLen),
		}
	}
	if spoil != nil {
		spoil(segs, nil)
	}
	for i := range segs {
		if segs[i].STag == 1 {
			segs[i].STag = ddp.STag(other.STag())
		}
		u := append(segs[i].Append(nil), bytes.Repeat([]byte{byte(i + 1)}, followLen)...)
		fpdus[i] = mpa.AppendFPDU(nil, u, true)
	}
	if spoil != nil {
		spoil(nil, fpdus)
	}
	e.input(bytes.Join(fpdus, nil))
	out := bytes.ReplaceAll(e.output(), stagOctets(reg.STag()), []byte("STAG"))
	out = bytes.ReplaceAll(out, stagOctets(other.STag()), []byte("OTHR"))
	out = bytes.ReplaceAll(out, stagOctets(reg.STag()^0xff), []byte("NONE"))
	if len(out) > 4 {
		out = out[:len(out)-mpa.CRCLen] // it covers the STags
	}
	code := ""
	if p, ok := e.err.(*verbs.ProtocolError); ok {
		code = fmt.Sprint(p.Code, p.Section)
	}
	if _, live := e.snd.Table.Lookup(reg.STag(), 0, 1, region.RemoteWrite); live != nil {
		t.Fatal(live)
	}
	return fmt.Sprintf("%x\n%v %s\n%q\n%+v\n%d reads, octets left %d", mem, e.err != nil, code, out, e.rcv.In, e.read, len(e.in)), e.followed
}

// TestFollow: segments that are placed in a run have the same result, and the same errors, as segments
// that are placed one by one, whatever comes in the middle of the run.
func TestFollow(t *testing.T) {
	const at = followSegs / 2
	for name, c := range map[string]struct {
		segs  func(s []ddp.Segment)
		fpdus func(f [][]byte)
	}{
		"all of it":         {},
		"ends early":        {segs: func(s []ddp.Segment) { s[at].Last = true }},
		"goes back":         {segs: func(s []ddp.Segment) { s[at].TO = 0 }},
		"beyond the memory": {segs: func(s []ddp.Segment) { push(s, followMem-5*followLen+4) }},
		"leaves a gap":      {segs: func(s []ddp.Segment) { s[at].TO += 1 << 40 }},
		"TO wraps":          {segs: func(s []ddp.Segment) { s[at].TO = 1<<64 - 4 }},
		"another STag":      {segs: func(s []ddp.Segment) { s[at].STag = 1 }},
		"no STag":           {segs: func(s []ddp.Segment) { s[at].STag ^= 0xff }},
		"another opcode":    {segs: func(s []ddp.Segment) { s[at].Control ^= 2 }},
		"another version":   {segs: func(s []ddp.Segment) { s[at].Control ^= 0x80 }},
		"bad CRC":           {fpdus: func(f [][]byte) { f[at][len(f[at])-1] ^= 1 }},
		"bad payload":       {fpdus: func(f [][]byte) { f[at][20] ^= 1 }},
		"DDP version":       {fpdus: func(f [][]byte) { again(f[at], func(u []byte) { u[0] ^= 3 }) }},
		"reserved bits":     {fpdus: func(f [][]byte) { again(f[at], func(u []byte) { u[0] |= 0x3c }) }},
		"shorter":           {fpdus: func(f [][]byte) { f[at] = mpa.AppendFPDU(nil, f[at][2:12+followLen], true) }},
		"longer": {fpdus: func(f [][]byte) {
			f[at] = mpa.AppendFPDU(nil, append(f[at][2:16+followLen:16+followLen], 1, 2, 3), true)
		}},
		"half an FPDU":  {fpdus: func(f [][]byte) { f[at] = f[at][:20]; clear(f[at+1:]) }},
		"half a header": {fpdus: func(f [][]byte) { f[at] = f[at][:5]; clear(f[at+1:]) }},
		"no payload":    {fpdus: func(f [][]byte) { f[at] = mpa.AppendFPDU(nil, f[at][2:16], true) }},
		"empty with another STag, and more of that": {
			func(s []ddp.Segment) { s[at].STag = 1 },
			func(f [][]byte) { f[at] = append(mpa.AppendFPDU(nil, f[at][2:16], true), f[at]...) },
		},
		"a Send within": {fpdus: func(f [][]byte) {
			s := ddp.Segment{Last: true, Control: engine.ControlOctet(verbs.OpSend), MSN: 1}
			f[at] = append(mpa.AppendFPDU(nil, append(s.Append(nil), "hi"...), true), f[at]...)
		}},
	} {
		spoil := func(s []ddp.Segment, f [][]byte) {
			if s != nil && c.segs != nil {
				c.segs(s)
			}
			if f != nil && c.fpdus != nil {
				c.fpdus(f)
			}
		}
		for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpReadResponse} {
			want, none := followed(t, op, true, spoil)
			got, n := followed(t, op, false, spoil)
			if got != want || none != 0 {
				t.Errorf("%v, %s: in a run\n%s\none by one\n%s", op, name, got, want)
			}
			// A Response that does not begin where its sink does is refused at its first segment.
			if n == 0 && (op == verbs.OpWrite || name != "beyond the memory") {
				t.Errorf("%v, %s: nothing was placed in a run", op, name)
			}
		}
	}
}

// push moves all segments to higher offsets.
func push(s []ddp.Segment, by int) {
	for i := range s {
		s[i].TO += uint64(by)
	}
}

// again changes the ULPDU of an FPDU and sums it up once more.
func again(f []byte, change func(u []byte)) {
	change(f[mpa.HeaderLen:])
	sum := len(f) - mpa.CRCLen
	binary.LittleEndian.PutUint32(f[sum:], mpa.UpdateCRC(0, f[:sum]))
}
