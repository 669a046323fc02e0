package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestSlotsBesideReads: a connection with RFC 7306 accepts IRD Reads, atomics in addition, and not one more
// request (RFC 7306 Section 5.2), all in one read of the socket.
func TestSlotsBesideReads(t *testing.T) {
	for _, more := range []int{0, 1} {
		a, b := rdmaptest.Pipe()
		x, p := RawResponder(t, a, b, &rdmap.Config{Startup: rdmap.Startup{IRD: 2, Extensions: verbs.Ext7306, Plain: true}})
		go x.Serve()
		mem, w := rdmaptest.Word(0)
		reg := must(x.Register(mem, region.Atomic|region.RemoteRead))(t)
		const n = 2 + 16
		var in []byte
		for i := range n + more {
			u := rdmaptest.ReadRequest(t, reg.STag(), 0, 8)
			if i >= 2 { // fetch and add 5
				s := ddp.Segment{Last: true, Control: 0x4a, QN: ddp.QNRequest, MSN: 1}
				u = binary.BigEndian.AppendUint32(s.Append(nil), 0)
				u = binary.BigEndian.AppendUint32(u, uint32(i))
				u = binary.BigEndian.AppendUint32(u, uint32(reg.STag()))
				u = append(u, make([]byte, 52-12)...)
				u[18+27] = 5
			}
			u[13] = byte(i + 1)
			in = append(in, rdmaptest.FPDU(u)...)
		}
		if _, err := p.Conn.Write(in); err != nil {
			t.Fatal(err)
		}
		var last []byte
		for i := 0; i < n+more && (last == nil || last[1] != 0x47); i++ {
			last = must(p.Next())(t)
		}
		if more == 0 && (last[1] != 0x4b || *w != 5*16) {
			t.Errorf("last %x, word %d", last, *w)
		}
		if more > 0 && (last[1] != 0x47 || last[18] != 0x12 || last[19] != 2) {
			t.Errorf("last %x", last)
		}
	}
}

// TestOperations: what each call of a Conn asks for is what happens, and what it returns. That it happens on every stream,
// among everything else, is said by TestMix.
func TestOperations(t *testing.T) {
	a, b := rdmaptest.Pipe()
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit}}
	x, y := rdmaptest.Connect(t, a, b, cfg, cfg)
	mem := &rdmaptest.Persisting{Mem: make([]byte, 1024)}
	reg := must(y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights | region.Atomic}))(t)
	go y.Serve()
	ctx, s := t.Context(), reg.STag()
	for _, step := range []struct {
		name      string
		call      func() (uint64, error)
		old, left uint64
	}{
		{"Swap", func() (uint64, error) { return x.Swap(ctx, s, 8, 5) }, 0, 5},
		{"CmpSwap", func() (uint64, error) { return x.CmpSwap(ctx, s, 8, 0xf5, 0x0f, 0x39, 0xf0) }, 5, 0x35},
		{"CmpSwap of another", func() (uint64, error) { return x.CmpSwap(ctx, s, 8, 0xf5, 0xff, 0x39, 0xf0) }, 0x35, 0x35},
		{"FetchAdd", func() (uint64, error) { return x.FetchAdd(ctx, s, 8, 0x0b, 0) }, 0x35, 0x40},
		{"FetchAdd of fields", func() (uint64, error) { return x.FetchAdd(ctx, s, 8, 0xe2, 1<<7) }, 0x40, 0x22},
	} {
		if old, err := step.call(); err != nil || old != step.old || binary.NativeEndian.Uint64(mem.Mem[8:]) != step.left {
			t.Errorf("%s: found %#x, left %#x, %v", step.name, old, binary.NativeEndian.Uint64(mem.Mem[8:]), err)
		}
	}
	noErr(t, x.AtomicWrite(ctx, s, 16, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}))
	noErr(t, x.Flush(ctx, s, 16, 8, verbs.FlushPersistent))
	sum, err := x.Verify(ctx, s, 0, 1024, nil)
	if err != nil || !bytes.Equal(sum, rdmaptest.Castagnoli(mem.Mem)) || mem.Mem[16] != 1 || mem.Mem[23] != 8 || mem.Calls != 1 {
		t.Errorf("%x of %x, %d flushes, %v", sum, mem.Mem[:24], mem.Calls, err)
	}
	noErr(t, y.SendImmediate(ctx, [8]byte{9}, true))
	if m := must(x.Recv(ctx))(t); m.Op != verbs.OpImmediateSE || !m.Solicited || len(m.Data) != 8 || m.Data[0] != 9 {
		t.Errorf("%+v", m)
	}
}
