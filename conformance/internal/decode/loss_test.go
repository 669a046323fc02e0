package decode_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// captureFault reports whether an error is about the capture, not about the peers.
func captureFault(err error) bool {
	for _, e := range []error{decode.ErrHole, decode.ErrMiddle, decode.ErrUnseen, decode.ErrNoCall, decode.ErrNotPlaced, decode.ErrPartial} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// TestCaptureLoss: a capture that lacks packets here and there, or the first ones, accuses nobody, and
// nearly everything in it is decoded.
func TestCaptureLoss(t *testing.T) {
	const seed = 13
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, name := range []string{"a-rping.pcap", "b-nfs3-write1m.pcap", "b-nfs3-read1m.pcap", "c-nfs41.pcap", "e-perftest.pcap", "f-nfs3-crc-ops.pcap"} {
		pkts := packetsOf(t, pcapDir+"/"+name)
		for round := range 6 {
			first, every := 0, 100 // packets missing at the beginning; one in how many
			if round%2 == 0 {
				first, every = rnd.IntN(len(pkts)/2), 1<<30
			}
			octets, decoded := 0, 0
			c := decode.NewCapture(nil, func(ev *decode.Event) {
				if ev.Conn.Foreign {
					return
				}
				octets += ev.Len
				if ev.Kind == decode.KindFPDU || ev.Kind == decode.KindStartup {
					decoded += ev.Len
				}
				if ev.Err != nil && !captureFault(ev.Err) {
					t.Errorf("seed %d: %s, round %d: %v", seed, name, round, ev)
				}
			})
			for i := range pkts {
				pkts[i].Frame = i + 1
				if i >= first && (i == 0 || rnd.IntN(every) > 0) {
					c.Packet(&pkts[i])
				}
			}
			c.Finish()
			if decoded*10 < octets*8 {
				t.Errorf("seed %d: %s, round %d: %d of %d octets decoded", seed, name, round, decoded, octets)
			}
		}
	}
}

// TestConflict: a retransmission with other contents is reported, and what came first counts.
func TestConflict(t *testing.T) {
	pkts := packetsOf(t, pcapDir+"/d-reject.pcap")
	var lines []string
	c := decode.NewCapture(nil, func(ev *decode.Event) { lines = append(lines, ev.String()) })
	for i := range pkts {
		c.Packet(&pkts[i])
		if h, ok := tcpHeader(pkts[i].Data); ok && len(pkts[i].Data) > h+60 {
			again := pkts[i]
			again.Data = slices.Clone(again.Data)
			again.Data[len(again.Data)-1] ^= 1
			c.Packet(&again)
		}
	}
	c.Finish()
	all := strings.Join(lines, "\n")
	if strings.Count(all, "octets retransmitted with other contents: 1") != 2 || !strings.Contains(all, "MPA Reply") {
		t.Error(all)
	}
}

// TestAcknowledgedLoss: octets that the peer has acknowledged and the capture lacks are given up soon, not
// only when MaxEarly octets are held.
func TestAcknowledgedLoss(t *testing.T) {
	pkts := packetsOf(t, pcapDir+"/b-nfs3-read1m.pcap")
	hole, gone := false, 0
	c := decode.NewCapture(nil, func(ev *decode.Event) { hole = hole || ev.Missing > 0 })
	for i := range pkts {
		if gone == 0 && i > 100 && len(pkts[i].Data) > 1000 {
			gone = i
			continue
		}
		if c.Packet(&pkts[i]); gone > 0 && i == gone+decode.Patience+20 {
			break
		}
	}
	if !hole {
		t.Errorf("%d packets after packet %d went missing nothing is reported", decode.Patience+20, gone)
	}
}
