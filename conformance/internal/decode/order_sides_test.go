package decode_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// sideOf returns who sent a packet of a capture of one connection, and its TCP flags.
func sideOf(pkts []decode.Packet, p *decode.Packet) (opener bool, flags byte) {
	h, _ := tcpHeader(p.Data)
	first, _ := tcpHeader(pkts[0].Data)
	return string(p.Data[h:h+2]) == string(pkts[0].Data[first:first+2]), p.Data[h+13]
}

// events decodes packets, shows the events to see, and returns the connections.
func events(pkts []decode.Packet, see func(ev *decode.Event)) (conns []*decode.ConnInfo) {
	c := decode.NewCapture(nil, func(ev *decode.Event) {
		if !slices.Contains(conns, ev.Conn) {
			conns = append(conns, ev.Conn)
		}
		see(ev)
	})
	for i := range pkts {
		pkts[i].Frame = i + 1
		c.Packet(&pkts[i])
	}
	c.Finish()
	return conns
}

// TestOneSide: a capture of only one direction is decoded, and all that is wrong is that the other one is
// missing.
func TestOneSide(t *testing.T) {
	for _, want := range []bool{true, false} {
		pkts := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
		some := slices.DeleteFunc(slices.Clone(pkts), func(p decode.Packet) bool {
			opener, _ := sideOf(pkts, &p)
			return opener != want
		})
		fpdus, hole := 0, false
		conns := events(some, func(ev *decode.Event) {
			if ev.Err != nil && !captureFault(ev.Err) {
				t.Errorf("opener %t: %v", want, ev)
			}
			hole = hole || ev.Missing > 0
			if ev.FPDU != nil {
				fpdus++
			}
		})
		if len(conns) != 1 || fpdus < 35 || !hole || conns[0].Unknown&decode.UnknownOrder != 0 {
			t.Errorf("opener %t: %d FPDUs, hole %t, %d connections, unknown: %v", want, fpdus, hole, len(conns), conns[0].Unknown)
		}
	}
}

// TestOrderUnknown: UnknownOrder is set if a packet was captured before what it answers, and for nothing
// else: neither for retransmissions nor for missing packets.
func TestOrderUnknown(t *testing.T) {
	good := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
	request := 3 // SYN, SYN and ACK, ACK, Request, ACK, Reply
	for _, tt := range []struct {
		name string
		make func(p []decode.Packet) []decode.Packet
		want decode.Unknown
	}{
		{"good", func(p []decode.Packet) []decode.Packet { return p }, 0},
		{"Request after the Reply", func(p []decode.Packet) []decode.Packet {
			late := p[request]
			return slices.Insert(slices.Delete(p, request, request+1), request+2, late)
		}, decode.UnknownOrder},
		{"SYN after the Request", func(p []decode.Packet) []decode.Packet { p[0], p[request] = p[request], p[0]; return p }, 0},
		{"Request lost", func(p []decode.Packet) []decode.Packet {
			return slices.Delete(p, request, request+1)
		}, decode.UnknownStartup | decode.UnknownInitiator | decode.UnknownPast | decode.UnknownHole},
	} {
		conns := events(tt.make(slices.Clone(good)), func(*decode.Event) {})
		if len(conns) != 1 || conns[0].Unknown&^decode.UnknownCRC != tt.want&^decode.UnknownCRC {
			t.Errorf("%s: %d connections, unknown: %v", tt.name, len(conns), conns[0].Unknown)
		}
	}
}

// TestUnseenEnd: octets at the end of a capture that only an acknowledgement shows are missing. One of them
// may be a FIN.
func TestUnseenEnd(t *testing.T) {
	good := packetsOf(t, pcapDir+"/f-nfs3-crc-ops.pcap")
	good = slices.DeleteFunc(good, func(p decode.Packet) bool {
		_, flags := sideOf(good, &p)
		return flags&1 != 0 // FIN
	})
	for _, lost := range []bool{false, true} {
		pkts, missing := slices.Clone(good), 0
		for i := len(pkts) - 1; lost; i-- {
			if opener, _ := sideOf(good, &pkts[i]); !opener && len(pkts[i].Data) > 80 {
				pkts = slices.Delete(pkts, i, i+1)
				break
			}
		}
		events(pkts, func(ev *decode.Event) { missing += ev.Missing })
		if lost != (missing > 1) || !lost && missing > 0 {
			t.Errorf("lost: %t, %d octets missing", lost, missing)
		}
	}
}

// TestForeignAfterFIN: a stream without a key is not MPA if its peer ends without sending anything.
func TestForeignAfterFIN(t *testing.T) {
	c := decode.NewConn(nil, func(ev *decode.Event) {
		if errors.Is(ev.Err, decode.ErrStartup) {
			t.Error(ev)
		}
	})
	c.Close(decode.FromAccepter, false, decode.Stamp{Frame: 1})
	c.Octets(decode.FromOpener, []byte("GET / HTTP/1.1\r\n"), decode.Stamp{Frame: 2})
	c.Finish()
	if !c.Info.Foreign {
		t.Error("taken for MPA")
	}
}
