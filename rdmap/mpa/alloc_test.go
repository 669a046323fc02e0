package mpa_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func TestAllocs(t *testing.T) {
	hdr, payload := make([]byte, 18), make([]byte, 1424)
	stream := mpa.AppendFPDU(nil, append(hdr, payload...), true)
	arena, bufs, out := make([]byte, 0, 4096), make([][]byte, 0, 32), make([]byte, 0, 4096)
	d := mpa.Deframer{CRC: true}
	var m mpa.Inserter
	md, mbuf, mstream := marked(true), make([]byte, 2048), new(mpa.Inserter).AppendFPDU(nil, payload, true)
	for name, f := range map[string]func(){
		"deframe": func() {
			_, _, _ = d.Next(stream)
			_, _, _ = d.Next(stream[:1000]) // more needed
			_, _, _ = d.Peek(stream)
		},
		"append": func() { mpa.AppendFPDU(out, payload, true) },
		"deframe marked": func() {
			*md = mpa.Deframer{CRC: true}
			md.ExpectMarkers()
			_, _, _ = md.Next(append(mbuf[:0], mstream...)[:1000])
			_, _, _ = md.Next(append(mbuf[:0], mstream...))
			md.Unread()
			_, _, _ = md.Next(mbuf)
		},
		"append marked": func() { m.AppendFPDU(out, payload, true) },
		"insert":        func() { m.Insert(bufs, arena, [][]byte{stream[:7], stream[7:]}, true) },
		"startup frame": func() {
			r := mpa.Reply{mpa.Frame{Rev: 2, Enhanced: true}}
			b, _ := r.Append(out)
			_, _, _ = mpa.ParseReply(b)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
