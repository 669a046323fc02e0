package nfs3

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// TestHeads: head, count word and item are the message, in both directions.
func TestHeads(t *testing.T) {
	w := WriteArgs{Handle: fh, Offset: 1, Count: 5, Data: []byte("hello")}
	if got := append(w.AppendHead(nil), "hello\x00\x00\x00"...); !bytes.Equal(got, w.Append(nil)) {
		t.Errorf("WRITE: %x", got)
	}
	l := SymlinkArgs{Where: where, Path: "abcd"}
	if got := append(l.AppendHead(nil), "abcd"...); !bytes.Equal(got, l.Append(nil)) {
		t.Errorf("SYMLINK: %x", got)
	}
	r := ReadRes{Attr: some, Count: 5, Data: []byte("hello")}
	if got := xdr.AppendOpaque(r.AppendHead(nil), r.Data); !bytes.Equal(got, r.Append(nil)) {
		t.Errorf("READ: %x", got)
	}
	k := ReadLinkRes{Attr: some, Path: "abcd"}
	if got := xdr.AppendString(k.AppendHead(nil), k.Path); !bytes.Equal(got, k.Append(nil)) {
		t.Errorf("READLINK: %x", got)
	}

	b := r.Append(nil)
	var r2 ReadRes
	d := xdr.NewDecoder(b[:len(b)-8])
	if err := r2.ParseHead(&d); err != nil || r2.DataLen != 5 || r2.Data != nil || d.Len() != 0 {
		t.Errorf("READ head: %+v, %v", r2, err)
	}
	b = k.Append(nil)
	var k2 ReadLinkRes
	d = xdr.NewDecoder(b[:len(b)-4])
	if err := k2.ParseHead(&d); err != nil || k2.PathLen != 4 || k2.Path != "" || d.Len() != 0 {
		t.Errorf("READLINK head: %+v, %v", k2, err)
	}
	for _, m := range []interface {
		ParseHead(*xdr.Decoder) error
	}{&ReadRes{}, &ReadLinkRes{}} {
		d := xdr.NewDecoder(x(70, 0))
		if err := m.ParseHead(&d); err != nil {
			t.Errorf("failed result: %v", err)
		}
	}
}

// TestEntrySizes: Size returns the number of octets that Append appends.
func TestEntrySizes(t *testing.T) {
	for _, name := range []string{"", "a", "ab", "abc", "abcd", "abcde"} {
		e := DirPlusEntry{DirEntry: DirEntry{1, name, 2}}
		if got := len(e.DirEntry.Append(nil)); got != e.DirEntry.Size() {
			t.Errorf("%q: %d octets, Size %d", name, got, e.DirEntry.Size())
		}
		for _, full := range []bool{false, true} {
			if full {
				e.Attr, e.Handle = some, SomeHandle(FileHandle(name))
			}
			if got := len(e.Append(nil)); got != e.Size() {
				t.Errorf("%q plus: %d octets, Size %d", name, got, e.Size())
			}
		}
	}
}

// TestAllocs: the steps of a server for every READ and WRITE allocate nothing.
func TestAllocs(t *testing.T) {
	read := (&ReadArgs{fh, 1, 2}).Append(nil)
	write := (&WriteArgs{Handle: fh, Count: 5, Data: []byte("hello")}).Append(nil)
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		var (
			r  ReadArgs
			w  WriteArgs
			rr = ReadRes{Attr: some}
			wr = WriteRes{Wcc: wcc}
		)
		d := xdr.NewDecoder(read)
		_ = r.Parse(&d)
		d = xdr.NewDecoder(write)
		_ = w.Parse(&d)
		buf = wr.Append(rr.AppendHead(buf[:0]))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
