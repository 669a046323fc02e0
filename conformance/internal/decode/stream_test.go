package decode_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

var long = flag.Bool("long", false, "2 GiB of capture in TestStream; 32 MiB otherwise")

// packetSource makes the packets of a capture as they are read: NFS READs of 64 KiB by Write chunks, CRC on, on a few
// connections at a time, each of 256 calls.
type packetSource struct {
	left  int // octets that may still come
	buf   bytes.Buffer
	conns [4]talker
	turn  int
	count int // packets
	fpdu  []byte
}

// talker is one connection.
type talker struct {
	port  uint16
	calls int
	seq   [2]uint32
	msn   [2]uint32
}

const (
	callsPerConn = 256
	readSize     = 64 << 10
	segment      = 1428
)

func newStream(octets int) *packetSource {
	s := &packetSource{left: octets}
	head := [24]byte{0: 0xd4, 1: 0xc3, 2: 0xb2, 3: 0xa1, 4: 2, 6: 4, 18: 4, 20: 1} // pcap, Ethernet
	s.buf.Write(head[:])
	return s
}

// Read implements io.Reader.
func (s *packetSource) Read(p []byte) (int, error) {
	for s.buf.Len() == 0 {
		if s.left <= 0 {
			return 0, io.EOF
		}
		s.turn = (s.turn + 1) % len(s.conns)
		s.call(&s.conns[s.turn])
	}
	n, err := s.buf.Read(p)
	s.left -= n
	return n, err
}

// call makes one READ on a connection, and on a new one after enough calls.
func (s *packetSource) call(c *talker) {
	if c.calls%callsPerConn == 0 {
		*c = talker{port: c.port + uint16(len(s.conns)), seq: [2]uint32{0xfff00000, 7}}
		if c.port < 1000 {
			c.port = 1000 + uint16(s.turn)
		}
		s.packet(c, decode.FromOpener, 0x02, nil)
		s.packet(c, decode.FromAccepter, 0x12, nil)
		cm := (&rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}).Append(nil)
		req, _ := (&mpa.Request{Frame: mpa.Frame{Rev: 1, CRC: true, PrivateData: cm}}).Append(nil)
		rep, _ := (&mpa.Reply{Frame: mpa.Frame{Rev: 1, CRC: true, PrivateData: cm}}).Append(nil)
		s.packet(c, decode.FromOpener, 0x18, req)
		s.packet(c, decode.FromAccepter, 0x18, rep)
	}
	c.calls++
	xid := uint32(c.calls)
	seg := chunks.Segment{Handle: 0x1234500 + chunks.Handle(xid), Length: readSize, Offset: uint64(xid) << 32}
	h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 8, Lists: chunks.Lists{Write: []chunks.WriteChunk{{seg}}}}
	call := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcRead)}
	args := nfs3.ReadArgs{Handle: make(nfs3.FileHandle, 32), Count: readSize}
	s.send(c, decode.FromOpener, xdr.Encode(xdr.AppendCall(h.Append(nil), &call), &args))
	for off := 0; off < readSize; off += segment {
		s.write(c, uint32(seg.Handle), seg.Offset+uint64(off), min(segment, readSize-off), off+segment >= readSize)
	}
	reply := xdr.ReplyHeader{XID: xid}
	b := xdr.AppendReply(h.Append(nil), &reply)
	for _, w := range []uint32{0, 0, readSize, 0, readSize} { // OK, no attributes, count, no end, length
		b = xdr.AppendUint32(b, w)
	}
	s.send(c, decode.FromAccepter, b)
	if c.calls%callsPerConn == 0 {
		s.packet(c, decode.FromOpener, 0x11, nil)
		s.packet(c, decode.FromAccepter, 0x11, nil)
	}
}

func (s *packetSource) send(c *talker, dir decode.Dir, msg []byte) {
	c.msn[dir]++
	u := binary.BigEndian.AppendUint32(append(make([]byte, 0, 256), 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0), c.msn[dir])
	u = append(append(u, 0, 0, 0, 0), msg...)
	s.fpdu = mpa.AppendFPDU(s.fpdu[:0], u, true)
	s.packet(c, dir, 0x18, s.fpdu)
}

func (s *packetSource) write(c *talker, tag uint32, to uint64, n int, last bool) {
	var u [14 + segment]byte
	u[0], u[1] = 0x81, 0x40
	if last {
		u[0] = 0xc1
	}
	binary.BigEndian.PutUint32(u[2:], tag)
	binary.BigEndian.PutUint64(u[6:], to)
	s.fpdu = mpa.AppendFPDU(s.fpdu[:0], u[:14+n], true)
	s.packet(c, decode.FromAccepter, 0x18, s.fpdu)
}

// packet writes one packet.
func (s *packetSource) packet(c *talker, dir decode.Dir, flags byte, payload []byte) {
	var b [16 + 54]byte
	le, be := binary.LittleEndian, binary.BigEndian
	s.count++
	n := uint32(54 + len(payload))
	le.PutUint32(b[0:], uint32(s.count>>10))
	le.PutUint32(b[8:], n)
	le.PutUint32(b[12:], n)
	p := b[16:]
	p[12], p[14], p[22], p[23] = 8, 0x45, 64, 6
	be.PutUint16(p[16:], uint16(40+len(payload)))
	copy(p[26:], []byte{192, 0, 2, 1 + byte(dir), 192, 0, 2, 2 - byte(dir)})
	ports := [2]uint16{c.port, 20049}
	be.PutUint16(p[34:], ports[dir])
	be.PutUint16(p[36:], ports[1-dir])
	be.PutUint32(p[38:], c.seq[dir])
	be.PutUint32(p[42:], c.seq[1-dir])
	p[46], p[47] = 0x50, flags
	c.seq[dir] += uint32(len(payload))
	if flags&3 != 0 {
		c.seq[dir]++
	}
	s.buf.Write(b[:])
	s.buf.Write(payload)
}

// memory returns the octets that the process has from the system.
func memory() uint64 {
	v := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(v)
	return v[0].Value.Uint64() - v[1].Value.Uint64()
}

// TestStream: memory does not grow with the capture. With -long (make test-long) it has 2 GiB.
func TestStream(t *testing.T) {
	octets := 32 << 20
	if *long {
		octets = 2<<30 - 1 // fits an int of 32 bits
	}
	debug.FreeOSMemory()
	before, most, replies := memory(), uint64(0), 0
	s := newStream(octets)
	for ev, err := range decode.Events(bufio.NewReaderSize(s, 1<<16), nil) {
		must(t, err)
		if ev.Err != nil || ev.FPDU != nil && ev.FPDU.CRCState != decode.CRCGood {
			t.Fatal(ev)
		}
		if r := ev.RPC; r != nil && r.IsReply {
			if replies++; !r.Whole || r.Message == nil {
				t.Fatal(ev)
			}
			most = max(most, memory())
		}
	}
	t.Logf("%d packets, %d READs, at most %d MiB, %d before", s.count, replies, most>>20, before>>20)
	if most > 200<<20 || replies < octets/80000 {
		t.Errorf("%d MiB, %d replies", most>>20, replies)
	}
}

// BenchmarkStream: octets of capture per second, CRC on, RPCs put together from their chunks.
func BenchmarkStream(b *testing.B) {
	file, err := io.ReadAll(newStream(32 << 20))
	must(b, err)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range decode.Events(bytes.NewReader(file), nil) {
			must(b, err)
		}
	}
}

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
