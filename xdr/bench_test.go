package xdr_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

func BenchmarkDecodeWords(b *testing.B) {
	in := make([]byte, 84) // the size of fattr3
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		d := xdr.NewDecoder(in)
		for range 21 {
			sink.n += uint64(d.Uint32())
		}
		sink.err = d.Err()
	}
}

func BenchmarkParseCall(b *testing.B) {
	in := unhex(b, goldenCall)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	var h xdr.CallHeader
	for b.Loop() {
		d := xdr.NewDecoder(in)
		sink.err = h.Parse(&d)
	}
}

func BenchmarkCheckAuth(b *testing.B) {
	h := goldenHeader()
	b.ReportAllocs()
	for b.Loop() {
		sink.n += uint64(h.CheckAuth())
	}
}

func BenchmarkAppendCall(b *testing.B) {
	h := goldenHeader()
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		sink.b = xdr.AppendCall(buf, &h)
	}
}

func BenchmarkParseReply(b *testing.B) {
	in := unhex(b, goldenSuccess)
	b.ReportAllocs()
	var h xdr.ReplyHeader
	for b.Loop() {
		d := xdr.NewDecoder(in)
		sink.err = h.Parse(&d)
	}
}

func BenchmarkRecord64K(b *testing.B) {
	stream := fragment(nil, make([]byte, 64<<10))
	src := bytes.NewReader(nil)
	r := xdr.NewRecordReader(src, 0)
	buf := make([]byte, 0, 64<<10)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(stream)
		if _, err := r.Next(buf); err != nil {
			b.Fatal(err)
		}
	}
}
