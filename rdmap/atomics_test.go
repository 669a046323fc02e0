package rdmap_test

import (
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSlotsBesideReads: a connection with RFC 7306 accepts IRD Reads, atomics in addition, and not one more
// request (RFC 7306 Section 5.2), all in one read of the socket.
func TestSlotsBesideReads(t *testing.T) {
	for _, more := range []int{0, 1} {
		a, b := rdmaptest.Pipe()
		x, p := RawResponder(t, a, b, &rdmap.Config{Startup: rdmap.Startup{IRD: 2, Extensions: verbs.Ext7306, Plain: true}})
		go x.Serve()
		mem, w := rdmaptest.Word(0)
		reg := must(x.Register(mem, region.Atomic|region.RemoteRead))(t)
		const n = 2 + 16
		var in []byte
		for i := range n + more {
			u := rdmaptest.ReadRequest(t, reg.STag(), 0, 8)
			if i >= 2 { // fetch and add 5
				s := ddp.Segment{Last: true, Control: 0x4a, QN: ddp.QNRequest, MSN: 1}
				u = binary.BigEndian.AppendUint32(s.Append(nil), 0)
				u = binary.BigEndian.AppendUint32(u, uint32(i))
				u = binary.BigEndian.AppendUint32(u, uint32(reg.STag()))
				u = append(u, make([]byte, 52-12)...)
				u[18+27] = 5
			}
			u[13] = byte(i + 1)
			in = append(in, rdmaptest.FPDU(u)...)
		}
		if _, err := p.Conn.Write(in); err != nil {
			t.Fatal(err)
		}
		var last []byte
		for i := 0; i < n+more && (last == nil || last[1] != 0x47); i++ {
			last = must(p.Next())(t)
		}
		if more == 0 && (last[1] != 0x4b || *w != 5*16) {
			t.Errorf("last %x, word %d", last, *w)
		}
		if more > 0 && (last[1] != 0x47 || last[18] != 0x12 || last[19] != 2) {
			t.Errorf("last %x", last)
		}
	}
}
