package chunks_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// TestAllocs: once warm, codec, layout, reduction and fill allocate nothing.
func TestAllocs(t *testing.T) {
	var l chunks.Lists
	var lay chunks.Layout
	var ws []chunks.Write
	var pieces [][]byte
	wires := make([][]byte, len(listVectors))
	for i, v := range listVectors {
		wires[i] = unhex(t, v.wire)
	}
	buf := make([]byte, 0, 1024)
	inline, dst := ramp(128, 1), make([]byte, 16<<10)
	m := chunks.Message{Head: inline, Items: []chunks.Item{{96, ramp(41, 1)}}}
	c := chunkWith(100, 100)
	if got := testing.AllocsPerRun(100, func() {
		for _, w := range wires {
			d := xdr.NewDecoder(w)
			if err := l.Decode(&d, nil); err != nil {
				t.Fatal(err)
			}
			buf = l.Append(buf[:0])
			if lay.Build(l.Read, len(inline), nil) == nil {
				lay.Place(dst, inline)
			}
			_ = lay.BuildLong(l.Read, nil)
		}
		pieces = m.Pieces(pieces[:0], 0)
		buf = m.Append(buf[:0], chunks.Set(0).With(0))
		c[0].Length, c[1].Length = 100, 100
		_ = c.Fill(len(m.Head) + 44)
		ws = chunks.AppendWrites(ws[:0], c, pieces)
		ws = chunks.AppendWrite(ws[:0], c, m.Items[0].Data)
		chunks.NFSv3.FindArg(100003, 3, 7, inline)
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
