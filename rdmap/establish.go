package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"go.uber.org/zap"
)

// establish starts the engine with what was negotiated.
func (c *Conn) establish(p *engine.Params) error {
	st := ConnectionState{
		HandshakeComplete: true, Initiator: p.Initiator, CRC: p.CRC, Revision: int(p.Rev), IRD: p.IRD, ORD: p.ORD,
		SendMarkers: p.SendMarkers, RecvMarkers: p.RecvMarkers, PeerToPeer: p.PeerToPeer,
		StagPeer: p.Stag, Extensions: p.Extensions, MULPDU: p.MULPDU,
	}
	c.mu.Lock()
	if c.ended() {
		defer c.mu.Unlock()
		return c.snd.Err()
	}
	c.state, c.peerData = st, p.PrivateData
	p.Start(&c.snd, c.rcv, &c.wk)
	c.mu.Unlock()
	c.flushIfReady(drive.IfBlind) // the ready-to-receive message
	c.log.Debug("established", zap.Bool("crc", st.CRC), zap.Int("mulpdu", st.MULPDU),
		zap.Int("ird", st.IRD), zap.Int("ord", st.ORD), zap.Bool("stag", st.StagPeer))
	c.called()
	return nil
}
