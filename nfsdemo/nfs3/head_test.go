package nfs3_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestHeads: head, count word and item are the message, in both directions.
func TestHeads(t *testing.T) {
	w := nfs3.WriteArgs{Handle: fh, Offset: 1, Count: 5, Data: []byte("hello")}
	if got := append(w.AppendHead(nil), "hello\x00\x00\x00"...); !bytes.Equal(got, w.Append(nil)) {
		t.Errorf("WRITE: %x", got)
	}
	l := nfs3.SymlinkArgs{Where: where, Path: "abcd"}
	if got := append(l.AppendHead(nil), "abcd"...); !bytes.Equal(got, l.Append(nil)) {
		t.Errorf("SYMLINK: %x", got)
	}
	r := nfs3.ReadRes{Attr: some, Count: 5, Data: []byte("hello")}
	if got := xdr.AppendOpaque(r.AppendHead(nil), r.Data); !bytes.Equal(got, r.Append(nil)) {
		t.Errorf("READ: %x", got)
	}
	k := nfs3.ReadLinkRes{Attr: some, Path: "abcd"}
	if got := xdr.AppendString(k.AppendHead(nil), k.Path); !bytes.Equal(got, k.Append(nil)) {
		t.Errorf("READLINK: %x", got)
	}

	b := r.Append(nil)
	var r2 nfs3.ReadRes
	d := xdr.NewDecoder(b[:len(b)-8])
	if err := r2.ParseHead(&d); err != nil || r2.DataLen != 5 || r2.Data != nil || d.Len() != 0 {
		t.Errorf("READ head: %+v, %v", r2, err)
	}
	b = k.Append(nil)
	var k2 nfs3.ReadLinkRes
	d = xdr.NewDecoder(b[:len(b)-4])
	if err := k2.ParseHead(&d); err != nil || k2.PathLen != 4 || k2.Path != "" || d.Len() != 0 {
		t.Errorf("READLINK head: %+v, %v", k2, err)
	}
	for _, m := range []interface {
		ParseHead(*xdr.Decoder) error
	}{&nfs3.ReadRes{}, &nfs3.ReadLinkRes{}} {
		d := xdr.NewDecoder(x(70, 0))
		if err := m.ParseHead(&d); err != nil {
			t.Errorf("failed result: %v", err)
		}
	}
}

// TestEntrySizes: Size returns the number of octets that Append appends.
func TestEntrySizes(t *testing.T) {
	for _, name := range []string{"", "a", "ab", "abc", "abcd", "abcde"} {
		e := nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{1, name, 2}}
		if got := len(e.DirEntry.Append(nil)); got != e.DirEntry.Size() {
			t.Errorf("%q: %d octets, Size %d", name, got, e.DirEntry.Size())
		}
		for _, full := range []bool{false, true} {
			if full {
				e.Attr, e.Handle = some, nfs3.SomeHandle(nfs3.FileHandle(name))
			}
			if got := len(e.Append(nil)); got != e.Size() {
				t.Errorf("%q plus: %d octets, Size %d", name, got, e.Size())
			}
		}
	}
}

// TestAllocs: the steps of a server for every READ, WRITE, GETATTR and ACCESS allocate nothing.
func TestAllocs(t *testing.T) {
	get := (&nfs3.GetAttrArgs{fh}).Append(nil)
	access := (&nfs3.AccessArgs{fh, 3}).Append(nil)
	read := (&nfs3.ReadArgs{fh, 1, 2}).Append(nil)
	write := (&nfs3.WriteArgs{Handle: fh, Count: 5, Data: []byte("hello")}).Append(nil)
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
		_ = r.Parse(&d)
		d = xdr.NewDecoder(write)
		_ = w.Parse(&d)
		buf = wr.Append(rr.AppendHead(buf[:0]))
		d = xdr.NewDecoder(get)
		_ = g.Parse(&d)
		d = xdr.NewDecoder(access)
		_ = a.Parse(&d)
		buf = l.Append(ar.Append(gr.Append(buf[:0])))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
