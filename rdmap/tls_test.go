package rdmap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// connsAtomics: both sides execute the three atomics at once, on shared words. Every old value is
// returned once, so none is lost.
func connsAtomics(t *testing.T, e ends) {
	const each = 50
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtSwap, IRD: 3, ORD: 3}}
	x, y := e.connect(t, cfg, cfg)
	var wg sync.WaitGroup
	for _, d := range [][2]*rdmap.Conn{{x, y}, {y, x}} {
		mem := make([]byte, 16)
		reg := must(d[1].Register(mem, region.Atomic|region.RemoteRead))(t)
		s := reg.STag()
		wg.Go(func() {
			for i, v := range []uint64{5, 7} {
				if old, err := d[0].Swap(t.Context(), s, 8, v); old != 5*uint64(i) || err != nil {
					t.Errorf("swap: %d, %v", old, err)
				}
			}
			if old, err := d[0].CmpSwap(t.Context(), s, 8, 7, ^uint64(0), 9, 0x0f); old != 7 || err != nil {
				t.Errorf("compare and swap: %d, %v", old, err)
			}
			if old, err := d[0].Swap(t.Context(), s, 8, 0); old != 9 || err != nil {
				t.Errorf("swap: %d, %v", old, err)
			}
		})
		seen := make([]bool, each)
		var mu sync.Mutex
		for range each {
			wg.Go(func() {
				old, err := d[0].FetchAdd(t.Context(), s, 0, 1, 0)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || old >= each || seen[old] {
					t.Errorf("fetch and add: %d, %v", old, err)
				} else {
					seen[old] = true
				}
			})
		}
	}
	wg.Wait()
}

// connsImmediate: Immediate Data in order with Sends, both ways.
func connsImmediate(t *testing.T, e ends) {
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306}}
	x, y := e.connect(t, cfg, cfg)
	for _, d := range [][2]*rdmap.Conn{{x, y}, {y, x}} {
		wrs := []verbs.WR{
			{Op: verbs.OpSend, Body: rdmaptest.Pattern(3000)},
			{Op: verbs.OpImmediate, Body: rdmaptest.Pattern(8)},
			{Op: verbs.OpSendSE, Body: rdmaptest.Pattern(5)},
			{Op: verbs.OpImmediateSE, Body: rdmaptest.Pattern(8)},
		}
		noErr(t, d[0].Post(wrs))
		for i := range wrs {
			m, err := d[1].Recv(t.Context())
			if err != nil || m.Op != wrs[i].Op || !bytes.Equal(m.Data, wrs[i].Body) || m.Solicited != (i >= 2) {
				t.Fatalf("message %d: %v of %d octets, %v", i, m.Op, len(m.Data), err)
			}
		}
	}
}

// pushWRs returns the push of the commit draft: a record of data at 64, made durable and compared with
// the hash sum, then the tail at 0, made durable.
func pushWRs(s region.STag, data, sum []byte, ans *verbs.Answer, w verbs.Completer) []verbs.WR {
	n := uint32(len(data))
	return []verbs.WR{
		{Op: verbs.OpWrite, STag: s, TO: 64, Body: data},
		{Op: verbs.OpFlushRequest, STag: s, TO: 64, Len: n, Flags: verbs.FlushPersistent},
		{Op: verbs.OpVerifyRequest, STag: s, TO: 64, Len: n, Body: sum, Answer: ans},
		{Op: verbs.OpAtomicWriteRequest, STag: s, Body: binary.BigEndian.AppendUint64(nil, 64+uint64(n))},
		{Op: verbs.OpFlushRequest, STag: s, Len: 8, Flags: verbs.FlushPersistent, Done: w},
	}
}

// pushTarget returns a responder's memory for a push, and the hash of a record.
func pushTarget(t *testing.T, y *rdmap.Conn) (mem *rdmaptest.Persisting, s region.STag, data, sum []byte) {
	t.Helper()
	mem = &rdmaptest.Persisting{Mem: make([]byte, 1<<16), Stop: make(chan struct{})}
	reg, err := y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights, Hash: region.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	data = rdmaptest.Pattern(10000)
	h := region.SHA256.New()
	h.Write(data)
	return mem, reg.STag(), data, h.Sum(nil)
}

// connsCommit: write, flush, verify, atomic write and flush in one Post, and so in one flight: none
// waits for a response. Sends pass a flush that hangs, and the responses come in order.
func connsCommit(t *testing.T, e ends) {
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}
	x, y := e.connect(t, cfg, cfg)
	mem, s, data, sum := pushTarget(t, y)
	go x.Serve()
	var ans verbs.Answer
	var w rdmap.Waiter
	w.Reset()
	noErr(t, x.Post(append(pushWRs(s, data, sum, &ans, &w), verbs.WR{Op: verbs.OpSend, Body: []byte("passes")})))
	if m, err := y.Recv(t.Context()); err != nil || string(m.Data) != "passes" {
		t.Fatal(err)
	}
	if w.Done() || mem.Mem[6] != 0 {
		t.Fatal("an atomic write passed a flush")
	}
	close(mem.Stop)
	noErr(t, x.Wait(t.Context(), &w))
	if mem.Calls != 2 || ans.N != 32 || !bytes.Equal(mem.Mem[64:10064], data) || binary.BigEndian.Uint64(mem.Mem) != 10064 {
		t.Fatal(mem.Calls, ans.N)
	}
}

// connsCommitFails is connsCommit with a hash that is not that of the record: the tail does not move,
// and both sides know why.
func connsCommitFails(t *testing.T, e ends) {
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}
	x, y := e.connect(t, cfg, cfg)
	mem, s, data, sum := pushTarget(t, y)
	close(mem.Stop)
	sum[31] ^= 1
	served := make(chan error, 1)
	go func() { served <- y.Serve() }()
	var ans verbs.Answer
	var w rdmap.Waiter
	w.Reset()
	noErr(t, x.Post(pushWRs(s, data, sum, &ans, &w)))
	err := x.Wait(t.Context(), &w)
	if te, ok := errors.AsType[*verbs.TerminateError](err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 7}) {
		t.Fatalf("the requester: %v", err)
	}
	if _, ok := errors.AsType[*verbs.ProtocolError](<-served); !ok {
		t.Fatalf("the responder: %v", y.Err())
	}
	if mem.Calls != 1 || ans.N != 0 || binary.BigEndian.Uint64(mem.Mem) != 0 {
		t.Fatalf("%d flushes, %d octets of hash, tail %x", mem.Calls, ans.N, mem.Mem[:8])
	}
}
