package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	repeatSends = 6 // there is a receive for each, and one more
	repeatSize  = 32
	repeatAt    = repeatSends / 2
)

// repeated runs Sends through an engine, as they arrive or each with all checks, and returns a description of the
// result.
func repeated(singly bool, op verbs.Opcode, spoil func(segs []ddp.Segment, data, fpdus [][]byte)) (log string, sends int) {
	cfg := engineConfig{recvs: repeatSends + 1, size: repeatSize}
	e := newEngine(cfg)
	e.singly = singly
	segs := make([]ddp.Segment, repeatSends)
	data, fpdus := make([][]byte, repeatSends), make([][]byte, repeatSends)
	for i := range segs {
		segs[i] = ddp.Segment{Last: true, Control: engine.ControlOctet(op), MSN: uint32(i + 1)}
		data[i] = bytes.Repeat([]byte{byte(i + 1)}, i)
	}
	spoil(segs, data, nil)
	for i := range segs {
		fpdus[i] = mpa.AppendFPDU(nil, append(segs[i].Append(nil), data[i]...), true)
	}
	spoil(nil, nil, fpdus)
	e.input(bytes.Join(fpdus, nil))
	code := ""
	if p, ok := e.err.(*verbs.ProtocolError); ok {
		code = fmt.Sprint(p.Code, p.Section)
	}
	return fmt.Sprintf("%+v\n%v %s\n%x\n%+v\n%d receives, octets left %d",
		e.got, e.err != nil, code, e.output(), e.rcv.In, e.rcv.Recvs.Load(), len(e.in)), e.repeated
}

// TestRepeat: Sends that are recognized by the one before have the same result, and the same errors, as Sends that are
// handled one by one, whatever comes between them.
func TestRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		segs  func(s []ddp.Segment, data [][]byte)
		fpdus func(f [][]byte)
	}{
		"all of them":     {},
		"an MSN again":    {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].MSN-- }},
		"an MSN ahead":    {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].MSN++ }},
		"an MSN far on":   {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].MSN += 9 }},
		"an MO":           {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].MO = 1 }},
		"no QN":           {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].QN = 5 }},
		"another version": {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].Control ^= 0x80 }},
		"a fifth bit":     {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].Control |= 0x10 }},
		"invalidates":     {segs: func(s []ddp.Segment, _ [][]byte) { s[repeatAt].Control ^= 7; s[repeatAt].ULP = 1 }},
		"with and without SE": {segs: func(s []ddp.Segment, _ [][]byte) {
			s[repeatAt].Control ^= 6
		}},
		"two halves": {segs: func(s []ddp.Segment, data [][]byte) {
			s[repeatAt].Last = false
			s[repeatAt+1].MSN--
			s[repeatAt+1].MO = uint32(len(data[repeatAt]))
			s[repeatAt+2].MSN--
		}},
		"as long as may be": {segs: func(_ []ddp.Segment, data [][]byte) { data[repeatAt] = make([]byte, repeatSize) }},
		"too long":          {segs: func(_ []ddp.Segment, data [][]byte) { data[repeatAt] = make([]byte, repeatSize+1) }},
		"more than posted": {fpdus: func(f [][]byte) {
			s := ddp.Segment{Last: true, Control: engine.ControlOctet(verbs.OpSend), MSN: repeatSends}
			for range 2 {
				s.MSN++
				f[repeatSends-1] = append(f[repeatSends-1], mpa.AppendFPDU(nil, s.Append(nil), true)...)
			}
		}},
		"bad CRC":       {fpdus: func(f [][]byte) { f[repeatAt][len(f[repeatAt])-1] ^= 1 }},
		"bad payload":   {fpdus: func(f [][]byte) { f[repeatAt][20] ^= 1 }},
		"DDP version":   {fpdus: func(f [][]byte) { again(f[repeatAt], func(u []byte) { u[0] ^= 3 }) }},
		"reserved bits": {fpdus: func(f [][]byte) { again(f[repeatAt], func(u []byte) { u[0] |= 0x3c }) }},
		"half an FPDU":  {fpdus: func(f [][]byte) { f[repeatAt] = f[repeatAt][:9]; clear(f[repeatAt+1:]) }},
		"a Write within": {fpdus: func(f [][]byte) {
			s := ddp.Segment{Tagged: true, Last: true, Control: engine.ControlOctet(verbs.OpWrite)}
			f[repeatAt] = append(mpa.AppendFPDU(nil, s.Append(nil), true), f[repeatAt]...)
		}},
	} {
		spoil := func(s []ddp.Segment, data, f [][]byte) {
			if s != nil && c.segs != nil {
				c.segs(s, data)
			}
			if f != nil && c.fpdus != nil {
				c.fpdus(f)
			}
		}
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendSE} {
			want, none := repeated(true, op, spoil)
			got, n := repeated(false, op, spoil)
			if got != want || none != 0 {
				t.Errorf("%v, %s: as they come\n%s\none by one\n%s", op, name, got, want)
			}
			if n == 0 {
				t.Errorf("%v, %s: none recognized", op, name)
			}
		}
	}
}
