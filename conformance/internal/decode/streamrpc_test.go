package decode_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// marked returns a record of fragments of n octets at most.
func marked(msg []byte, n int) (b []byte) {
	for {
		part := msg[:min(n, len(msg))]
		msg = msg[len(part):]
		mark := uint32(len(part))
		if len(msg) == 0 {
			mark |= 1 << 31 // the last one
		}
		b = append(binary.BigEndian.AppendUint32(b, mark), part...)
		if len(msg) == 0 {
			return b
		}
	}
}

// TestRecords: NFS over TCP is decoded, however its records are cut, and is not taken for MPA.
func TestRecords(t *testing.T) {
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: 2, Prog: nfs3.Program, Vers: 3, Proc: uint32(nfs3.ProcGetAttr)})
	call = xdr.Encode(call, &nfs3.HandleArgs{Handle: nfs3.FileHandle("handle")})
	reply := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 7})
	reply = xdr.Encode(reply, &nfs3.GetAttrRes{Attr: nfs3.Attr{Type: nfs3.TypeReg, Size: 9}})
	for _, fragment := range []int{1000, 24} {
		for _, piece := range []int{1000, 30} {
			var lines []string
			c := decode.NewConn(nil, func(ev *decode.Event) {
				if ev.Kind == decode.KindRecord {
					lines = append(lines, ev.String())
				} else if ev.Kind == decode.KindUndecoded {
					t.Error(ev)
				}
			})
			at := decode.Stamp{Frame: 1}
			for range 2 {
				for b := range slices.Chunk(marked(call, fragment), piece) {
					c.Octets(decode.FromOpener, b, at)
				}
				for b := range slices.Chunk(marked(reply, fragment), piece) {
					c.Octets(decode.FromAccepter, b, at)
				}
			}
			c.Finish()
			if len(lines) != 4 || !strings.Contains(lines[0], "xid=0x000007 | call NFSv3 GETATTR fh=0x918020d9") && !strings.Contains(lines[0], "call NFSv3 GETATTR fh=0x918020d9") ||
				!strings.Contains(lines[3], "reply NFSv3 GETATTR NFS3_OK") || !c.Info.Foreign {
				t.Errorf("fragments of %d in pieces of %d:\n%s", fragment, piece, strings.Join(lines, "\n"))
			}
		}
	}
}

// TestEncrypted: a connection within TLS, at once or once RPC has asked for it (RFC 9289), is called what it is, once a side,
// however its octets come.
func TestEncrypted(t *testing.T) {
	probe := marked(xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: 2, Prog: nfs3.Program, Vers: 3, Cred: xdr.Auth{Flavor: xdr.AuthTLS}}), 100)
	start := marked(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 7, Verf: xdr.Auth{Body: []byte("STARTTLS")}}), 100)
	hello := append([]byte{22, 3, 1, 2, 0, 1}, make([]byte, 100)...)
	data := append([]byte{23, 3, 3, 1, 0}, make([]byte, 100)...)
	for name, sides := range map[string][2][][]byte{
		"STARTTLS":   {{probe, hello, data}, {start, hello, data}},
		"below MPA":  {{hello, data}, {hello, data}},
		"only alert": {{hello}, {{21, 3, 3, 0, 2, 2, 40}}},
	} {
		for _, piece := range []int{1000, 1, 2, 3} {
			records, encrypted := 0, [2]int{}
			c := decode.NewConn(nil, func(ev *decode.Event) {
				switch {
				case ev.Kind == decode.KindRecord:
					records++
				case errors.Is(ev.Err, decode.ErrEncrypted):
					encrypted[ev.Dir]++
				case ev.Err != nil && !errors.Is(ev.Err, decode.ErrNotMPA):
					t.Errorf("%s: %v", name, ev)
				}
			})
			for i := range max(len(sides[0]), len(sides[1])) {
				for dir, octets := range sides {
					if i < len(octets) {
						cut := piece
						if octets[i][0] >= 0x80 { // a record of RPC is known by its head
							cut = 1000
						}
						for b := range slices.Chunk(octets[i], cut) {
							c.Octets(decode.Dir(dir), b, decode.Stamp{Frame: 1})
						}
					}
				}
			}
			c.Finish()
			want := 0
			if name == "STARTTLS" {
				want = 2
			}
			if records != want || encrypted != [2]int{1, 1} || !c.Info.Encrypted || !c.Info.Foreign {
				t.Errorf("%s in pieces of %d: %d records, %v", name, piece, records, encrypted)
			}
		}
	}
}

// TestNoRecord: what is no record any more ends the decoding; a hole does as well.
func TestNoRecord(t *testing.T) {
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: 2, Prog: nfs3.Program, Vers: 3})
	for want, next := range map[error]func(*decode.Conn){
		decode.ErrRecord: func(c *decode.Conn) {
			c.Octets(decode.FromOpener, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}, decode.Stamp{})
		},
		decode.ErrHole: func(c *decode.Conn) {
			c.Hole(decode.FromOpener, 10, decode.Stamp{})
			c.Octets(decode.FromOpener, make([]byte, 10), decode.Stamp{})
		},
	} {
		var got error
		c := decode.NewConn(nil, func(ev *decode.Event) {
			if ev.Kind == decode.KindUndecoded {
				got = ev.Err
			}
		})
		c.Octets(decode.FromOpener, marked(call, 1000), decode.Stamp{})
		next(c)
		c.Finish()
		if !errors.Is(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
