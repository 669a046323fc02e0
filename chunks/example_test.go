package chunks_test

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// The receiver of a call decodes the lists and learns where everything goes
// before it allocates or pulls anything.
func ExampleLayout_Build() {
	wire := (&chunks.Lists{Read: []chunks.ReadSegment{
		{Position: 8, Segment: chunks.Segment{Handle: 0xa1, Length: 5, Offset: 0x1000}},
	}}).Append(nil)

	var lists chunks.Lists
	d := xdr.NewDecoder(wire)
	if err := lists.Decode(&d, nil); err != nil {
		fmt.Println(err)
		return
	}
	payload := append([]byte{0, 0, 0, 1, 0, 0, 0, 5}, "TAIL"...)
	var l chunks.Layout
	if err := l.Build(lists.Read, len(payload), nil); err != nil {
		fmt.Println(err)
		return
	}
	buf := make([]byte, l.Total)
	l.Place(buf, payload)
	for _, p := range l.Pulls {
		fmt.Printf("read %d octets of %v at %#x\n", p.Length, p.Handle, p.Offset)
		copy(buf[p.Dst:p.Dst+int(p.Length)], "hello")
	}
	fmt.Printf("%q\n", buf)
	// Output:
	// read 5 octets of 0x000000a1 at 0x1000
	// "\x00\x00\x00\x01\x00\x00\x00\x05hello\x00\x00\x00TAIL"
}

// A Position Zero chunk is the stream itself; it is split around the chunk that
// belongs inside it.
func ExampleLayout_BuildLong() {
	var l chunks.Layout
	err := l.BuildLong([]chunks.ReadSegment{
		{Position: 0, Segment: chunks.Segment{Handle: 1, Length: 60, Offset: 0}},
		{Position: 40, Segment: chunks.Segment{Handle: 2, Length: 100, Offset: 0}},
	}, nil)
	for _, p := range l.Pulls {
		fmt.Printf("%v+%d: %d octets to %d\n", p.Handle, p.Offset, p.Length, p.Dst)
	}
	fmt.Println(l.Total, err)
	// Output:
	// 0x00000001+0: 40 octets to 0
	// 0x00000002+0: 100 octets to 40
	// 0x00000001+40: 20 octets to 140
	// 160 <nil>
}

// The sender takes an item and its pad out of the stream.
func ExampleMessage() {
	m := chunks.Message{
		Body:  []byte("xid.....cnt.tail"),
		Items: []chunks.Item{{Pos: 12, Data: []byte("hello")}},
	}
	fmt.Println(m.Len(), m.Check())
	fmt.Printf("%q\n", m.Append(nil, chunks.Set(0).With(0)))
	fmt.Printf("%q\n", m.Append(nil, 0))
	// Output:
	// 24 <nil>
	// "xid.....cnt.tail"
	// "xid.....cnt.hello\x00\x00\x00tail"
}

// A result of 5000 octets goes into two segments of 4096.
func ExampleWriteChunk_Fill() {
	offered := chunks.WriteChunk{{Handle: 1, Length: 4096}, {Handle: 2, Length: 4096}}
	c := append(chunks.WriteChunk(nil), offered...)
	if err := c.Fill(5000); err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range chunks.AppendWrite(nil, c, make([]byte, 5000)) {
		fmt.Printf("write %d octets to %v\n", len(w.Data), w.Handle)
	}
	fmt.Println(chunks.Returned(offered, c))
	// Output:
	// write 4096 octets to 0x00000001
	// write 904 octets to 0x00000002
	// 5000 <nil>
}

func ExampleAppendWrites() {
	c := chunks.WriteChunk{{Handle: 1, Length: 6}, {Handle: 2, Length: 4}}
	for _, w := range chunks.AppendWrites(nil, c, [][]byte{[]byte("head"), []byte("result")}) {
		fmt.Printf("%v+%d %q\n", w.Handle, w.Offset, w.Data)
	}
	// Output:
	// 0x00000001+0 "head"
	// 0x00000001+4 "re"
	// 0x00000002+0 "sult"
}

func ExampleBinding() {
	// READ3res: OK, no attributes, count 3, eof, and the data's count word.
	results := []byte{19: 3}
	pos, n, ok := chunks.NFSv3.FindResult(100003, 3, 6, results)
	fmt.Println(pos, n, ok)
	// Output: 20 3 true
}

// Where a receiver of padded messages has to look: every opaque and string.
func ExampleWalker() {
	args := xdr.AppendOpaque(nil, make([]byte, 28)) // LOOKUP: a handle and a name
	args = xdr.AppendOpaque(args, []byte("passwd"))
	w := chunks.NFSv3.(chunks.Walker)
	ok := w.WalkArgs(100003, 3, 3, args, func(pos, n int) int {
		fmt.Println("at", pos, n, "octets")
		return n + xdr.Pad(n)
	})
	fmt.Println(ok, chunks.Covers(chunks.NFSv3, 100003, 3), chunks.Covers(chunks.NFSv3, 100005, 3))
	// Output:
	// at 4 28 octets
	// at 36 6 octets
	// true true false
}

// A program with two procedures: put(string, opaque), and get(string), which returns a status and, if that is 0, an opaque.
// It shares connections with NFS.
func ExampleTable() {
	const prog, vers, put, get = 0x20000001, 1, 1, 2
	store := chunks.Table{
		{Prog: prog, Vers: vers, Proc: put, Arg: chunks.After(chunks.Opaque)},
		{Prog: prog, Vers: vers, Proc: get, Result: chunks.After(chunks.Case(0))},
	}
	b := chunks.Join(store, chunks.NFS)

	args := xdr.AppendUint32(xdr.AppendString(nil, "key"), 1<<20) // the data are elsewhere
	fmt.Println(b.FindArg(prog, vers, put, args))
	fmt.Println(b.FindResult(prog, vers, get, []byte{0, 0, 0, 2})) // not found
	fmt.Println(b.Eligible(100003, 3, 6))                          // READ
	// Output:
	// 12 1048576 true
	// 0 0 false
	// false true
}
