package mpa_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// The other half of ADVERSARY 16: every Reply, as raw octets, to every kind of
// initiator.

var matrixInitiators = []mpa.Config{
	{IRD: 7, ORD: 128},
	{IRD: 7, ORD: 128, PeerToPeer: true, NoCRC: true, Markers: true},
	{IRD: 128, ORD: 3, PeerToPeer: true, RTR: mpa.RTRSend | mpa.RTRRead, Markers: true, WantMarkers: true},
	{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated, PeerToPeer: true, RTR: mpa.RTRSend, NoCRC: true},
	{Plain: true, IRD: 4, ORD: 5, Markers: true},
	{Rev: 1, IRD: 4, ORD: 5, NoCRC: true, WantMarkers: true},
}

func TestReplyMatrix(t *testing.T) {
	for k := range matrixInitiators {
		cfg := &matrixInitiators[k]
		matrix(mpa.ReplyKey, func(f rawFrame) {
			i := initiator(t, *cfg)
			i.AppendRequest(nil)
			_, err := i.Input(f.wire())
			checkReply(t, cfg, f, i, err)
		})
	}
}

func checkReply(t *testing.T, cfg *mpa.Config, f rawFrame, i *mpa.Initiator, err error) {
	what, code, res := wantOutcome(cfg, f)
	_, malformed := errors.AsType[*mpa.FormatError](err)
	rej, rejected := errors.AsType[*mpa.RejectError](err)
	e, failed := errors.AsType[*mpa.Error](err)
	if malformed != (what == "malformed") || rejected != (what == "rejected") || failed != (what == "terminate") ||
		failed && (e.Code != code || !e.Terminate()) {
		t.Fatalf("%+v to %+v: %v; want %s %v", f, *cfg, err, what, code)
	}
	if rejected {
		data := f.wire()[mpa.StartupHeaderLen:]
		if f.enhanced() && f.pd >= 4 {
			data = data[4:]
		}
		if !bytes.Equal(rej.Reply.PrivateData, data) || rej.Reply.Enhanced != (f.enhanced() && f.pd >= 4) {
			t.Fatalf("%+v: %+v", f, rej.Reply)
		}
	}
	if err != nil {
		return
	}
	if got := i.Result(); !bytes.Equal(got.PrivateData, f.ulp()) {
		t.Fatalf("%+v: private data %x", f, got.PrivateData)
	}
	i.Result().PrivateData = nil
	if !reflect.DeepEqual(*i.Result(), res) {
		t.Fatalf("%+v to %+v:\ngot  %+v\nwant %+v", f, *cfg, *i.Result(), res)
	}
}

// wantOutcome states RFC 5044 Section 7.1 and RFC 6581 Sections 9 and 10 for an initiator.
func wantOutcome(cfg *mpa.Config, f rawFrame) (what string, code mpa.Code, res mpa.Negotiation) {
	sent, asked := byte(2), !cfg.Plain && cfg.Rev != 1 // revision, S
	if cfg.Rev == 1 {
		sent = 1
	}
	switch {
	case f.pd > 512:
		return "malformed", 0, res
	case f.flags&0x20 != 0:
		return "rejected", 0, res
	case f.rev == 0, f.rev > sent, f.enhanced() && f.pd < 4, f.enhanced() != asked,
		f.flags&0x80 != 0 && !cfg.Markers:
		return "malformed", 0, res
	}
	res = mpa.Negotiation{
		Rev: f.rev, Enhanced: asked, CRC: !cfg.NoCRC || f.flags&0x40 != 0,
		SendMarkers: f.flags&0x80 != 0, RecvMarkers: cfg.WantMarkers,
		IRD: cfg.IRD, ORD: cfg.ORD, PeerIRD: 0x3fff, PeerORD: 0x3fff,
	}
	if !asked {
		if cfg.ORD != 0x3fff {
			res.ORD = min(cfg.ORD, 1)
		}
		return "", 0, res
	}
	res.PeerIRD, res.PeerORD = f.ird(), f.ord()
	if cfg.IRD != 0x3fff && f.ord() != 0x3fff && f.ord() > cfg.IRD {
		return "terminate", mpa.CodeIRD, res
	}
	if cfg.ORD != 0x3fff && f.ird() != 0x3fff && f.ird() < cfg.ORD {
		res.ORD = f.ird()
	}
	a := f.word&0x80000000 != 0
	if !cfg.PeerToPeer {
		res.UnaskedPeerToPeer = a
		return "", 0, res
	}
	// Exactly one option, which both sides have: Write before Read before Send.
	can := cfg.RTR
	if can == 0 {
		can = mpa.RTRWrite | mpa.RTRRead
	}
	for _, o := range []mpa.RTR{mpa.RTRWrite, mpa.RTRRead, mpa.RTRSend} {
		if a && res.RTR == 0 && f.rtr()&can&o != 0 && (o != mpa.RTRRead || f.ird() > 0) {
			res.PeerToPeer, res.RTR = true, o
		}
	}
	if res.RTR == 0 {
		return "terminate", mpa.CodeRTR, res
	}
	return "", 0, res
}
