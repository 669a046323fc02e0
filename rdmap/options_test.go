package rdmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// option is one combination of the settings on which the startup can agree.
type option struct {
	rev  int
	x, y bool // whether the initiator and the responder ask for markers
	crc  rdmap.CRCMode
	rtr  mpa.RTR // 0: not peer-to-peer
}

func (o option) String() string {
	return fmt.Sprintf("rev %d, markers %v %v, crc %v, rtr %v", o.rev, o.x, o.y, o.crc == rdmap.CRCOn, o.rtr)
}

// options calls f with every combination.
func options(f func(o option)) {
	for _, rtr := range []mpa.RTR{0, mpa.RTRWrite, mpa.RTRRead, mpa.RTRSend} {
		for bits := range 16 {
			o := option{rev: 1 + bits&1, x: bits&2 != 0, y: bits&4 != 0, crc: []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff}[bits>>3], rtr: rtr}
			if o.rev == 2 || rtr == 0 {
				f(o)
			}
		}
	}
}

// set applies the option to both sides.
func (o option) set(cx, cy *rdmap.Config) {
	cx.Startup.Revision, cx.Startup.Markers, cx.Startup.CRC = o.rev, o.x, o.crc
	cx.Startup.PeerToPeer, cx.Startup.RTR = o.rtr != 0, o.rtr
	cy.Startup.Markers, cy.Startup.CRC = o.y, o.crc
}

// TestOptions: Sends, Writes and Reads with every combination of revision, markers, CRC and RTR. The
// responder sends first if peer-to-peer permits that.
func TestOptions(t *testing.T) {
	t.Parallel()
	options(func(o option) {
		t.Run(o.String(), func(t *testing.T) {
			OnWires(t, func(t *testing.T, a, b net.Conn) {
				cx, cy := &rdmap.Config{Receives: rdmap.Receives{Size: 9000}}, &rdmap.Config{Receives: rdmap.Receives{Size: 9000}, Startup: rdmap.Startup{Plain: o.x != o.y}}
				o.set(cx, cy)
				x, y := rdmaptest.Connect(t, a, b, cx, cy)
				for i, c := range []*rdmap.Conn{x, y} {
					s := c.ConnectionState()
					recv, send := o.x, o.y
					if i == 1 {
						recv, send = o.y, o.x
					}
					if s.Revision != o.rev || s.RecvMarkers != recv || s.SendMarkers != send ||
						s.CRC != (o.crc == rdmap.CRCOn) || s.PeerToPeer != (o.rtr != 0) {
						t.Fatalf("side %d: %+v", i, s)
					}
				}
				o.talk(t, x, y)
			})
		})
	})
}

func (o option) talk(t *testing.T, x, y *rdmap.Conn) {
	t.Helper()
	ctx := t.Context()
	if o.rtr == 0 {
		noErr(t, x.Send(ctx, []byte("first")))
		if m, err := y.Recv(ctx); err != nil || string(m.Data) != "first" {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, 488, 1500, 9000} {
		noErr(t, y.Send(ctx, rdmaptest.Pattern(n)))
		m, err := x.Recv(ctx)
		if err != nil || !bytes.Equal(m.Data, rdmaptest.Pattern(n)) {
			t.Fatalf("%d octets: %v", n, err)
		}
	}
	mem := make([]byte, 200003)
	reg := must(y.Register(mem, region.RemoteRead|region.RemoteWrite))(t)
	go y.Serve()
	data, sink := rdmaptest.Pattern(len(mem)), make([]byte, len(mem))
	noErr(t, x.Write(ctx, data, reg.STag(), 0))
	noErr(t, x.Read(ctx, sink, reg.STag(), 0))
	if !bytes.Equal(sink, data) || !bytes.Equal(mem, data) {
		t.Fatal("octets differ")
	}
	// The counters count what is on the stream, markers included.
	if in, out := y.Stats(), x.Stats(); in.OctetsIn != out.OctetsOut || in.FPDUsIn != out.FPDUsOut {
		t.Errorf("%d octets in %d FPDUs sent, %d in %d received", out.OctetsOut, out.FPDUsOut, in.OctetsIn, in.FPDUsIn)
	}
}

// TestRTRSent: the initiator sends exactly one RTR, of a kind that the Reply offers, as its first FPDU,
// before anything that was posted (RFC 6581 Section 9.2).
func TestRTRSent(t *testing.T) {
	const sendHdr = "4143" + "00000000" + "00000000" + "00000001" + "00000000"
	for _, tt := range []struct {
		can, takes mpa.RTR
		ord        int
		want       string // the ULPDU
	}{
		{0, 0, 0, "c140" + "00000000" + "0000000000000000"},
		{mpa.RTRWrite, mpa.RTRWrite, 0, "c140" + "00000000" + "0000000000000000"},
		{mpa.RTRRead | mpa.RTRSend, 0, 0, "4141" + "00000000" + "00000001" + "00000001" + "00000000" +
			"00000000" + "0000000000000000" + "00000000" + "00000000" + "0000000000000000"},
		{mpa.RTRSend, 0, 0, sendHdr},
		{mpa.RTRRead | mpa.RTRSend, 0, -1, sendHdr},
		{mpa.RTRRead, 0, -1, "c140" + "00000000" + "0000000000000000"}, // no slot for a Read
	} {
		a, b := rdmaptest.Pipe()
		x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{PeerToPeer: true, RTR: tt.can, ORD: tt.ord}})
		errs := make(chan error, 1)
		go func() { errs <- x.Handshake(t.Context()) }()
		p, neg, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8, RTR: tt.takes}, nil)
		noErr(t, err)
		if err := <-errs; err != nil || !neg.PeerToPeer || !x.ConnectionState().PeerToPeer {
			t.Fatal(err, neg)
		}
		noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("next")}}))
		if u, err := p.Next(); err != nil || !bytes.Equal(u, rdmaptest.Unhex(t, tt.want)) {
			t.Errorf("%v of %v: RTR %x, %v", tt.can, tt.takes, u, err)
		}
		if u, err := p.Next(); err != nil || string(u[18:]) != "next" {
			t.Errorf("%v of %v: then %x, %v", tt.can, tt.takes, u, err)
		}
		x.Abort(nil)
		<-x.Done()
		b.Close()
	}
}

// TestNoMatchingRTR: a Reply without an RTR that we can send is answered with the Terminate 0x2/0x0/0x07.
// It has markers if the Reply asks for them, and no CRC if neither side asks for one.
func TestNoMatchingRTR(t *testing.T) {
	for bits := range 4 {
		markers, nocrc := bits&1 != 0, bits&2 != 0
		a, b := rdmaptest.Pipe()
		x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{PeerToPeer: true, RTR: mpa.RTRWrite, CRC: []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff}[bits>>1]}})
		errs := make(chan error, 1)
		go func() { errs <- x.Handshake(t.Context()) }()
		_, _, err := rdmaptest.Respond(b, &mpa.Config{
			IRD: 8, ORD: 8, RTR: mpa.RTRSend, Markers: true, WantMarkers: markers, NoCRC: nocrc,
		}, nil)
		noErr(t, err)
		u := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(0x2007<<16, nil, false))
		want := mpa.AppendFPDU(nil, u, !nocrc)
		if markers {
			want = new(mpa.Inserter).AppendFPDU(nil, u, !nocrc)
		}
		if got := Everything(t, b); !bytes.Equal(got, want) {
			t.Errorf("markers %v, nocrc %v: %x, want %x", markers, nocrc, got, want)
		}
		b.Close()
		if pe, ok := errors.AsType[*verbs.ProtocolError](<-errs); !ok || pe.Code != (verbs.TermCode{Layer: 2, EType: 0, Code: 7}) {
			t.Errorf("%v", pe)
		}
		<-x.Done()
	}
}

// TestBadMarker: a marker that does not point at the length field, although the CRC is right, is MPA's
// code 3 (RFC 5044 Section 8), whether or not our direction has markers. It is noticed without CRCs too.
func TestBadMarker(t *testing.T) {
	for bits := range 8 {
		both, nocrc, inside := bits&1 != 0, bits&2 != 0, bits&4 != 0
		OnWires(t, func(t *testing.T, a, b net.Conn) {
			x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{Markers: true, CRC: []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff}[bits>>1&1]}, Receives: rdmap.Receives{Count: 4}})
			errs := make(chan error, 1)
			go func() { errs <- x.Handshake(t.Context()) }()
			p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8, Markers: true, WantMarkers: both, NoCRC: nocrc}, nil)
			noErr(t, err)
			noErr(t, <-errs)
			go x.Serve()
			f := p.Frame(append(rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.SendZero)), make([]byte, 1000)...))
			at := 3
			if inside {
				at += 512
			}
			f[at] ^= 4
			if !nocrc {
				f = mpa.AppendCRC(f[:len(f)-4], mpa.UpdateCRC(0, f[:len(f)-4]))
			}
			if _, err := b.Write(f); err != nil {
				t.Fatal(err)
			}
			u := rdmaptest.ULPDU(t, rdmaptest.WantTerminate(0x2003<<16, nil, false))
			want := mpa.AppendFPDU(nil, u, !nocrc)
			if both {
				want = new(mpa.Inserter).AppendFPDU(nil, u, !nocrc)
			}
			if got := Everything(t, b); !bytes.Equal(got, want) {
				t.Errorf("both %v, nocrc %v, inside %v: %x, want %x", both, nocrc, inside, got, want)
			}
			b.Close()
			<-x.Done()
			if pe, ok := errors.AsType[*verbs.ProtocolError](x.Err()); !ok || pe.Code != (verbs.TermCode{Layer: 2, EType: 0, Code: 3}) {
				t.Errorf("%v", x.Err())
			}
		})
	}
}
