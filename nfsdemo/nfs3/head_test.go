package nfs3_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestHeads: head, count word and item are the message, in both directions. A head that failed has no item.
func TestHeads(t *testing.T) {
	data := []byte("hello")
	for _, m := range []interface {
		xdr.Message
		Head() xdr.Message
	}{
		&nfs3.WriteArgs{Handle: fh, Offset: 1, Count: 5, Data: data}, &nfs3.SymlinkArgs{Where: where, Path: "hello"},
		&nfs3.ReadRes{Attr: some, Count: 5, Data: data}, &nfs3.ReadLinkRes{Attr: some, Path: "hello"},
		&nfs3.ReadRes{Status: nfs3.ErrStale}, &nfs3.ReadLinkRes{Status: nfs3.ErrStale}, &nfs3.ReadDirRes{Status: nfs3.ErrStale},
	} {
		whole, item := xdr.Encode(nil, m), xdr.AppendOpaque(nil, data)
		if r, ok := m.(nfs3.Result); ok && *r.Stat() != nfs3.OK {
			item = nil
		}
		head := xdr.Encode(nil, m.Head())
		if got := append(bytes.Clone(head), item...); !bytes.Equal(got, whole) {
			t.Errorf("%T: %x", m, got)
		}
		d := xdr.NewDecoder(whole)
		if err := xdr.Decode(&d, m.Head()).Err(); err != nil || d.Len() != len(item) {
			t.Errorf("%T: head leaves %d octets, %v", m, d.Len(), err)
		}
	}
}

// TestEntrySizes: Size returns the number of octets of an entry and the word that announces it.
func TestEntrySizes(t *testing.T) {
	for _, name := range []string{"", "a", "ab", "abc", "abcd", "abcde"} {
		e := nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{1, name, 2}}
		if got := 4 + len(xdr.Encode(nil, &e.DirEntry)); got != e.DirEntry.Size() {
			t.Errorf("%q: %d octets, Size %d", name, got, e.DirEntry.Size())
		}
		for _, full := range []bool{false, true} {
			if full {
				e.Attr, e.Handle = some, nfs3.SomeHandle(nfs3.FileHandle(name))
			}
			if got := 4 + len(xdr.Encode(nil, &e)); got != e.Size() {
				t.Errorf("%q plus: %d octets, Size %d", name, got, e.Size())
			}
		}
	}
}

// TestAllocs: the steps of a server for every READ, WRITE, GETATTR and ACCESS allocate nothing.
func TestAllocs(t *testing.T) {
	get := xdr.Encode(nil, &nfs3.GetAttrArgs{fh})
	access := xdr.Encode(nil, &nfs3.AccessArgs{fh, 3})
	read := xdr.Encode(nil, &nfs3.ReadArgs{fh, 1, 2})
	write := xdr.Encode(nil, &nfs3.WriteArgs{Handle: fh, Count: 5, Data: []byte("hello")})
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() {
		var (
			r  nfs3.ReadArgs
			w  nfs3.WriteArgs
			g  nfs3.GetAttrArgs
			a  nfs3.AccessArgs
			rr = nfs3.ReadRes{Attr: some}
			wr = nfs3.WriteRes{Wcc: wcc}
			gr = nfs3.GetAttrRes{Attr: attr}
			ar = nfs3.AccessRes{Attr: some}
			l  = nfs3.LookupRes{Handle: fh, Attr: some}
		)
		d := xdr.NewDecoder(read)
		xdr.Decode(&d, &r)
		d = xdr.NewDecoder(write)
		xdr.Decode(&d, &w)
		buf = xdr.Encode(xdr.Encode(buf[:0], rr.Head()), &wr)
		d = xdr.NewDecoder(get)
		xdr.Decode(&d, &g)
		d = xdr.NewDecoder(access)
		xdr.Decode(&d, &a)
		buf = xdr.Encode(xdr.Encode(xdr.Encode(buf[:0], &gr), &ar), &l)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
