package transport

import (
	"testing"

	"github.com/stag-rdma/stag/transport/internal/count"
)

// TestInlinePromises: all connections together may send no more inline than Limits.Memory, beyond a page for
// each call, the first ones as much as they like, and a connection that ends makes room.
func TestInlinePromises(t *testing.T) {
	cfg, err := (&Config{}).fill()
	if err != nil {
		t.Fatal(err)
	}
	cfg.asServer()
	d := newDoor(cfg, new(count.Counters))
	var sizes []int
	for range 2000 {
		n := d.inline()
		if k := len(sizes); k > 0 && n > sizes[k-1] {
			t.Fatalf("connection %d may send %d octets, the one before %d", k, n, sizes[k-1])
		}
		sizes = append(sizes, n)
	}
	if sizes[0] != 256<<10 || sizes[7] != 256<<10 || sizes[1999] != DefaultInlineSize {
		t.Errorf("%d, %d, %d octets", sizes[0], sizes[7], sizes[1999])
	}
	if d.promised > cfg.Limits.Memory || d.promised < cfg.Limits.Memory/2 {
		t.Errorf("%d octets promised of %d", d.promised, cfg.Limits.Memory)
	}
	for _, n := range sizes {
		d.inlineIs(n, 0)
	}
	if d.promised != 0 || d.inline() != 256<<10 {
		t.Errorf("%d octets promised to nobody", d.promised)
	}
}
