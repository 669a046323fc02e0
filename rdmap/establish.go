package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// establish sets up the engine with what was negotiated, and starts it.
func (c *Conn) establish(neg *mpa.Negotiation) error {
	ulp := neg.PrivateData
	if !c.cfg.Plain {
		if rest, cp, ok := splitCapability(ulp); ok {
			ulp, c.peerCap = rest, cp
		}
	}
	st := ConnectionState{
		HandshakeComplete: true, Initiator: c.initiator, CRC: neg.CRC, Revision: int(neg.Rev),
		IRD: negotiated(neg.IRD, c.cfg.IRD), ORD: negotiated(neg.ORD, c.cfg.ORD),
		SendMarkers: neg.SendMarkers, RecvMarkers: neg.RecvMarkers, PeerToPeer: neg.PeerToPeer,
		StagPeer: c.peerCap.mulpdu != 0,
	}
	st.Extensions = c.negotiateExtensions()
	st.MULPDU = c.chooseMULPDU(st.StagPeer, st.SendMarkers)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.state, c.peerData = st, ulp
	c.rcv.Deframer.CRC, c.rcv.Held = st.CRC, !c.initiator
	if st.RecvMarkers {
		c.rcv.Deframer.ExpectMarkers()
	}
	switch {
	case st.SendMarkers:
		c.wk.StartMarking()
	case st.CRC && !st.StagPeer:
		c.wk.Alignment.EMSS = c.link.EMSS()
		c.wk.Batch.EndSegments()
	}
	s := &c.snd
	s.MULPDU, s.CRC, s.ORD, s.IRD = st.MULPDU, st.CRC, st.ORD, st.IRD
	s.Interleave = c.peerCap.features&featInterleave != 0
	s.Held = !c.initiator
	s.Ext = st.Extensions
	if st.Extensions != engine.ExtBase {
		if s.IRD > 0 {
			s.IRD += extraSlots
		}
		c.rcv.Admit(st.Extensions)
	}
	c.rcv.RTRSend = !c.initiator && neg.RTR&mpa.RTRSend != 0
	if c.initiator && neg.RTR != 0 {
		c.snd.Post(rtrMessage(neg.RTR))
	}
	c.up.Store(true)
	c.mu.Unlock()
	c.flushIfReady(drive.IfBlind) // the RTR
	c.log.Debug("established", zap.Bool("crc", st.CRC), zap.Int("mulpdu", st.MULPDU),
		zap.Int("ird", st.IRD), zap.Int("ord", st.ORD), zap.Bool("stag", st.StagPeer))
	c.warm()
	return nil
}

// rtrMessage returns the ready-to-receive message r: the first FPDU of the connection, which has no
// payload and no effect (RFC 6581 Section 9.2).
func rtrMessage(r mpa.RTR) *verbs.WR {
	op := verbs.OpSend
	if r == mpa.RTRWrite {
		op = verbs.OpWrite
	} else if r == mpa.RTRRead {
		op = verbs.OpReadRequest
	}
	return &verbs.WR{Op: op}
}

func negotiated(v uint16, own int) int {
	if v == mpa.NotNegotiated {
		return own
	}
	return int(v)
}

// chooseMULPDU returns Config.MULPDU if that is set. Otherwise it returns the largest that a stag peer
// accepts, or, for any other peer, what fits into a TCP segment, since some peers handle FPDUs across
// segments badly.
func (c *Conn) chooseMULPDU(stag, markers bool) int {
	switch {
	case c.cfg.MULPDU != 0:
		return c.cfg.MULPDU
	case stag:
		return min(max(int(c.peerCap.mulpdu), mpa.MinMULPDU), StagMULPDU)
	}
	return mpa.MULPDU(c.link.EMSS(), markers)
}
