package decode

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"slices"
	"testing"
)

// open shows c the SYN of a connection of client n.
func open(c *Capture, n int, seq uint32) {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 10<<24+uint32(n))
	src, dst := netip.AddrPortFrom(netip.AddrFrom4(ip), 1000), netip.MustParseAddrPort("192.0.2.1:20049")
	seg := tcpSegment{src: src, dst: dst, syn: true, seq: seq}
	c.flow(&seg, Stamp{}).packet(&seg, Stamp{})
}

// TestFlowOrder: the remembered flows, oldest first, after some of them were dropped.
func TestFlowOrder(t *testing.T) {
	c := NewCapture(&Options{MaxConns: 3}, func(*Event) {})
	for _, step := range []struct {
		client int
		seq    uint32
		want   []int // numbers of the connections remembered
	}{
		{1, 0, []int{1}},
		{2, 0, []int{1, 2}},
		{3, 0, []int{1, 2, 3}},
		{3, 0, []int{1, 2, 3}}, // the same SYN
		{2, 9, []int{1, 3, 4}}, // another one: from the middle
		{4, 0, []int{3, 4, 5}}, // one too many: the first
		{4, 9, []int{3, 4, 6}}, // the last
		{3, 9, []int{4, 6, 7}},
	} {
		open(c, step.client, step.seq)
		var got []int
		for f := range c.order.All() {
			got = append(got, f.conn.Info.ID)
		}
		if !slices.Equal(got, step.want) || len(c.flows) != len(got) {
			t.Fatalf("after %v: %v, %d flows", step, got, len(c.flows))
		}
	}
}

// TestManyConns: making room for a connection costs no more if many are remembered.
func TestManyConns(t *testing.T) {
	const n = 8192
	cost := func(most int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c := NewCapture(&Options{MaxConns: most}, func(*Event) {})
		for i := range n {
			open(c, i, 0)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if all, half := cost(n), cost(n/2); half > 2*all {
		t.Errorf("%d octets allocated for %d connections, %d if half of them are remembered", all, n, half)
	}
}
