package memory

import (
	"testing"
	"unsafe"
)

// TestBuffers checks classes, bounds and the panic on a second release.
func TestBuffers(t *testing.T) {
	var p Pool
	for _, tt := range []struct{ n, want int }{
		{0, 4096},
		{1, 4096},
		{4096, 4096},
		{4097, 16384},
		{65536 + 200, 68 << 10},
		{1<<20 + 64<<10, 1<<20 + 64<<10},
		{2<<20 + 64<<10, 2<<20 + 64<<10},
		{2<<20 + 64<<10 + 1, 2<<20 + 64<<10 + 1},
	} {
		b := p.Get(tt.n)
		if len(b.Data) != tt.want {
			t.Errorf("get(%d) has %d octets, want %d", tt.n, len(b.Data), tt.want)
		}
		b.Release()
		again := p.Get(tt.n)
		if same := again == b; same != (tt.want <= 2<<20+64<<10) {
			t.Errorf("get(%d): reused %v", tt.n, same)
		}
		again.Release()
	}
	if n := p.Live(); n != 0 {
		t.Errorf("%d buffers live", n)
	}
	var many []*Buffer
	for range 40 {
		many = append(many, p.Get(1<<20))
	}
	for _, b := range many {
		b.Release()
	}
	if n := p.idle.Load(); n > maxIdle || n < maxIdle/2 {
		t.Errorf("%d octets idle", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("second release did not panic")
		}
	}()
	many[0].Release()
}

// TestBuffersAligned: pooled buffers begin at a multiple of every alignment that a server
// may ask for.
func TestBuffersAligned(t *testing.T) {
	const most = 4096 // of transport.Config.Align
	for _, n := range Sizes {
		for range 20 {
			b := Shared.Get(n)
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(b.Data))) % most; at != 0 {
				t.Errorf("a buffer of %d octets at %d modulo %d", n, at, most)
			}
			defer b.Release()
		}
	}
}
