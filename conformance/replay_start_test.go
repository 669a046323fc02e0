package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// start runs the startup of MPA.
func (r *replay) start(a net.Conn, b net.Conn) {
	t, v := r.t, r.v
	own := 0 // index of the engine's startup frame
	if r.side != r.initiator {
		own = 1
	}
	cfg := &rdmap.Config{
		Startup: rdmap.Startup{
			Plain: true, Revision: v.rev, Markers: v.in, MULPDU: siwMULPDU, IRD: 128, ORD: 128, CRC: rdmap.CRCOn,
			PrivateData: r.private[0], Accept: func(*mpa.Request) ([]byte, error) { return r.private[1], nil },
		},
		Receives: rdmap.Receives{Size: 1 << 17},
		Handler:  r,
	}
	if v.recorded && !r.wantsCRC[own] || !v.recorded && !v.crc {
		cfg.Startup.CRC = rdmap.CRCOff
	}
	raw := &mpa.Config{
		Rev: uint8(v.rev), NoCRC: !v.crc, Markers: true, WantMarkers: v.out, IRD: 128, ORD: 128, PrivateData: r.private[0],
	}
	if r.rtr != nil && v.rev == 2 {
		cfg.Startup.PeerToPeer, cfg.Startup.RTR = true, r.rtrKind()
		raw.PeerToPeer, raw.RTR = true, r.rtrKind()
	}
	r.engine = rdmap.Server(a, cfg)
	if own == 0 {
		r.engine = rdmap.Client(a, cfg)
	}
	shook := make(chan error, 1)
	go func() { shook <- r.engine.Handshake(context.Background()) }()
	var neg *mpa.Negotiation
	var err error
	switch {
	case v.recorded:
		neg = r.startRecorded(b)
	case own == 0:
		r.peer, neg, err = rdmaptest.Respond(b, raw, r.private[1])
	default:
		r.peer, neg, err = rdmaptest.Initiate(b, raw)
	}
	check(t, err)
	check(t, <-shook)
	if s := r.engine.ConnectionState(); s.CRC != neg.CRC || !v.recorded && (s.CRC != v.crc || s.RecvMarkers != v.in || s.SendMarkers != v.out || s.Revision != v.rev) {
		t.Fatalf("%+v", s)
	}
	if neg.PeerToPeer {
		r.ready()
	}
}

// ready exchanges the ready-to-receive message, and its answer if it has one.
func (r *replay) ready() {
	if r.side != r.initiator {
		r.say(r.rtr, nil)
		if r.rtr.answer != nil {
			r.expect(r.rtr.answer)
		}
		return
	}
	s, p := r.expect(r.rtr)
	if answer := r.rtr.answer; answer != nil {
		sink := ddp.STag(binary.BigEndian.Uint32(p))
		check(r.t, r.peer.SendSegment(r.peer.Tagged(uint8(answer.op), sink, binary.BigEndian.Uint64(p[4:])), nil))
	} else if len(p) != 0 {
		r.t.Fatalf("the RTR is %v with %x", &s, p)
	}
}

// siwMULPDU is the longest ULPDU in captures at MTU 1500.
const siwMULPDU = 1442

// startRecorded sends the recorded startup frame of the peer, and takes the engine's.
func (r *replay) startRecorded(b net.Conn) *mpa.Negotiation {
	say := func(i int) {
		_, err := b.Write(r.frames[i])
		check(r.t, err)
	}
	hear := func() []byte {
		f := make([]byte, mpa.StartupHeaderLen, 1024)
		_, err := io.ReadFull(b, f)
		check(r.t, err)
		f = f[:len(f)+int(binary.BigEndian.Uint16(f[18:]))]
		_, err = io.ReadFull(b, f[mpa.StartupHeaderLen:])
		check(r.t, err)
		return f
	}
	if r.side == r.initiator {
		hear()
		say(1)
	} else {
		say(0)
		reply, _, err := mpa.ParseReply(hear())
		check(r.t, err)
		if reply.Rejected {
			r.t.Fatal("rejected")
		}
	}
	neg := &mpa.Negotiation{CRC: r.crc, PeerToPeer: r.rtr != nil}
	r.peer = rdmaptest.NewPeer(b, neg)
	return neg
}
