package xdr_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// allocated returns how many octets f allocates, other goroutines included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// sink keeps results alive.
var sink struct {
	b   []byte
	n   uint64
	err error
}

func TestNoAllocs(t *testing.T) {
	var (
		call    = unhex(t, goldenCall)
		reply   = unhex(t, goldenProgMis)
		items   = xdr.AppendOpaque(xdr.AppendUint64(xdr.AppendUint32(nil, 1), 2), make([]byte, 100))
		hdr     = goldenHeader()
		rh      = xdr.ReplyHeader{XID: 1, Accept: xdr.ProgMismatch, Low: 3, High: 3}
		cred    = goldenCred()
		body    = cred.Append(nil)
		buf     = make([]byte, 0, 4096)
		gotCall xdr.CallHeader
		gotRep  xdr.ReplyHeader
	)
	for _, tc := range []struct {
		name string
		f    func()
	}{
		{"items", func() {
			d := xdr.NewDecoder(items)
			sink.n = uint64(d.Uint32()) + d.Uint64()
			sink.b = d.Opaque(1 << 20)
			sink.err = d.ErrIn("items")
		}},
		{"append items", func() {
			b := xdr.AppendString(xdr.AppendBool(xdr.AppendUint64(buf[:0], 9), true), "name")
			sink.b = xdr.AppendOpaque(b, body)
		}},
		{"append call", func() { sink.b = xdr.AppendCall(buf[:0], &hdr) }},
		{"parse call", func() {
			d := xdr.NewDecoder(call)
			sink.err = gotCall.Parse(&d)
		}},
		{"refusal", func() {
			r, _ := gotCall.Refusal(nil)
			sink.n = uint64(r.XID)
		}},
		{"append reply", func() { sink.b = xdr.AppendReply(buf[:0], &rh) }},
		{"parse reply", func() {
			d := xdr.NewDecoder(reply)
			sink.err = gotRep.Parse(&d)
		}},
		{"append credential", func() { sink.b = cred.Append(buf[:0]) }},
		{"parse credential, warm", func() { sink.err = cred.Parse(body) }},
		{"peek", func() {
			xid, _, _ := xdr.PeekXID(call)
			sink.n = uint64(xid)
		}},
		{"record mark", func() { sink.b = xdr.AppendRecordMark(buf[:0], 40, true) }},
	} {
		if n := testing.AllocsPerRun(100, tc.f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", tc.name, n)
		}
		if sink.err != nil {
			t.Errorf("%s: %v", tc.name, sink.err)
		}
	}
}

// Records into a buffer that is large enough cost nothing.
func TestRecordNoAllocs(t *testing.T) {
	stream := fragment(fragment(nil, pattern(3000), 1000), pattern(60_000))
	src := bytes.NewReader(stream)
	r := xdr.NewRecordReader(src, 0)
	buf := make([]byte, 0, 64<<10)
	n := testing.AllocsPerRun(50, func() {
		src.Reset(stream)
		for range 2 {
			if _, err := r.Next(buf); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
