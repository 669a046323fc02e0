package matrix

import (
	"bytes"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// some copies the connections of a capture that are wanted, which are in the order of the tries. If there are not as
// many as tries, it copies the first ones, at most n.
func some(packets []byte, wanted []bool, n int) ([]byte, error) {
	type key [2]uint64 // the same in both directions
	conns := make(map[key]int)
	of := func(p *decode.Packet) int {
		x := gopacket.NewPacket(p.Data, p.Link, gopacket.NoCopy)
		if x.NetworkLayer() == nil || x.TransportLayer() == nil {
			return -1
		}
		k := key{x.NetworkLayer().NetworkFlow().FastHash(), x.TransportLayer().TransportFlow().FastHash()}
		i, ok := conns[k]
		if !ok {
			i = len(conns)
			conns[k] = i
		}
		return i
	}
	for p, err := range decode.Packets(bytes.NewReader(packets)) {
		if err != nil {
			return nil, err
		}
		of(&p)
	}
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	if err != nil {
		return nil, err
	}
	for p, err := range decode.Packets(bytes.NewReader(packets)) {
		if err != nil {
			return nil, err
		}
		i := of(&p)
		if len(conns) == len(wanted) && !wanted[max(i, 0)] || len(conns) != len(wanted) && i >= n || i < 0 {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Data), Length: p.Len}
		if err := w.WritePacket(ci, p.Data); err != nil {
			return nil, err
		}
	}
	err = w.Flush()
	return out.Bytes(), err
}
