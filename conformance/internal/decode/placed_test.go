package decode_test

import (
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// TestNothingKept: at the end of every capture all memory is back in the budget, whatever the limits were.
func TestNothingKept(t *testing.T) {
	for _, opt := range []*decode.Options{nil, smallOptions, {MaxPlaced: 1, MaxCalls: 1, MaxConns: 1, MaxMessage: 1, MaxEarly: 1}} {
		for _, file := range captures(t) {
			c := decode.NewCapture(opt, func(*decode.Event) {})
			left, _ := c.Left()
			readPackets(t, file, c)
			c.Finish()
			if now, flows := c.Left(); now != left || flows != 0 {
				t.Errorf("%s: %d octets of %d left, %d flows", file, now, left, flows)
			}
		}
	}
}

// TestSmallMemory: with little memory, messages are decoded from what came inline, and nothing is made up.
func TestSmallMemory(t *testing.T) {
	c := decode.NewCapture(&decode.Options{MaxPlaced: 1000}, func(ev *decode.Event) {
		if ev.RPC == nil || ev.RPC.Err != nil {
			return
		}
		if ev.RPC.Whole && len(ev.RPC.Body) > 4096 {
			t.Errorf("whole: %v", ev)
		}
		if ev.RPC.Name == "" {
			t.Errorf("no name: %v", ev)
		}
	})
	readPackets(t, pcapDir+"/b-nfs3-write1m.pcap", c)
	c.Finish()
	if c.Stats != (decode.CaptureStats{Packets: 2245, TCP: 2245, Connections: 1}) {
		t.Errorf("%+v", c.Stats)
	}
}
