package replies

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func counted(n byte) (k key) {
	for i := range k {
		k[i] = n + byte(i)
	}
	return k
}

// Golden octets, written down by hand from docs/replies.x and the table of Record.
func TestGolden(t *testing.T) {
	a := offerArgs{Client: counted(0x10), Epoch: 7, Connect: true}
	want := rdmaptest.Hex(t, "101112131415161718191a1b1c1d1e1f 00000007 00000001")
	if got := a.append(nil); !bytes.Equal(got, want) {
		t.Errorf("offer %x, want %x", got, want)
	}
	d := xdr.NewDecoder(want)
	var b offerArgs
	if b.parse(&d); d.End() != nil || b != a {
		t.Errorf("%+v", b)
	}
	r := offerRes{Status: statusConnect, At: rendezvous.Place{Token: rendezvous.Token(counted(0x20)), Addr: ":20051", Milliseconds: 10000}, Life: 9}
	want = rdmaptest.Hex(t, "00000001 202122232425262728292a2b2c2d2e2f 00000006 3a3230303531 0000 00002710 0000000000000009")
	if got := r.append(nil); !bytes.Equal(got, want) {
		t.Errorf("answer %x, want %x", got, want)
	}
	d = xdr.NewDecoder(want)
	var s offerRes
	if s.parse(&d); d.End() != nil || s != r {
		t.Errorf("%+v", s)
	}
	v := name{9, 4}.verf()
	if got, want := v.Append(nil), rdmaptest.Hex(t, "73746c67 00000010 0000000000000009 0000000000000004"); !bytes.Equal(got, want) {
		t.Errorf("verifier %x, want %x", got, want)
	}
	req := rpc.Request{CallHeader: xdr.CallHeader{XID: 0xabcd, Prog: 1, Vers: 2, Proc: 3}}
	resp := rpc.Response{Verf: v, Results: []byte{0, 0, 0, 42}}
	record := appendRecord(nil, 7, counted32(), &req, &resp)
	want = rdmaptest.Hex(t, `00000007 00000001 00000002 00000003
		000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
		0000abcd 00000001 00000001 00000000 00000000 00000000 00000000
		0000abcd 00000001 00000000 73746c67 00000010 0000000000000009 0000000000000004 00000000 0000002a`)
	if !bytes.Equal(record, want) || len(record) != recordSize(&resp) {
		t.Errorf("record %x\nwant   %x, %d octets", record, want, recordSize(&resp))
	}
	got, ok := parseRecord(5, record)
	if !ok || got.Seq != 5 || got.Epoch != 7 || got.XID != 0xabcd || got.Prog != 1 || got.Vers != 2 || got.Proc != 3 ||
		got.Digest != counted32() || !bytes.Equal(got.Reply, want[76:]) {
		t.Errorf("%+v", got)
	}
	for n := range recordLen + rdmaLen {
		if _, ok := parseRecord(1, record[:n]); ok {
			t.Errorf("%d octets are a record", n)
		}
	}
}

func counted32() (d [32]byte) {
	for i := range d {
		d[i] = byte(i)
	}
	return d
}

// What belongs to nobody is released; what a call has returned, or may return, is not.
func TestKept(t *testing.T) {
	k := newKept(2, 3) // record 3 was found
	long := k.begin()
	short := k.begin()
	k.arrived(4, 40)
	k.arrived(5, 50)
	if k.end(short, 5) {
		t.Error("room although 3 was not finished")
	}
	if !k.finish(3) || k.low != 3 {
		t.Errorf("low %d, want 3", k.low)
	}
	later := k.begin()
	if k.end(later, 0) || k.low != 3 {
		t.Errorf("low %d: record 4 may belong to a call in flight", k.low)
	}
	if there, other := k.has(4, 40); !there || other {
		t.Error("4 is not there")
	}
	if _, other := k.has(4, 41); !other {
		t.Error("record 4 belongs to another call")
	}
	if there, other := k.has(6, 60); there || other {
		t.Error("6 is there")
	}
	if !k.end(long, 0) || k.low != 4 {
		t.Errorf("low %d: record 4 belongs to nobody", k.low)
	}
	if k.finish(9) || len(k.done) != 0 {
		t.Error("a record that has not arrived")
	}
	if !k.finish(5) || k.low != 5 || len(k.xids)+len(k.owned)+len(k.done)+len(k.calls) != 0 {
		t.Errorf("%+v", k)
	}
	if _, other := k.has(5, 50); !other {
		t.Error("5 was released")
	}
}

// The digest of a call does not depend on how its items are handed over.
func TestDigestOf(t *testing.T) {
	a, b := []byte("hello"), []byte("worlds, two")
	var args, head []byte
	head = xdr.AppendUint32(head, 7)
	args = append(args, head...)
	head, args = xdr.AppendUint32(head, uint32(len(a))), xdr.AppendOpaque(args, a)
	at := len(head)
	head, args = xdr.AppendUint32(head, uint32(len(b))), xdr.AppendOpaque(args, b)
	more := len(head)
	head, args = xdr.AppendUint32(head, 9), xdr.AppendUint32(args, 9)
	c := rpc.Call{Prog: 1, Vers: 2, Proc: 3, Args: head, Item: a, ItemPos: at, MoreItems: []rpc.CallItem{{Pos: more, Data: b}}}
	if digestOf(&c) != Digest(1, 2, 3, args) {
		t.Error("another digest")
	}
	if digestOf(&rpc.Call{Prog: 1, Vers: 2, Proc: 3, Args: args}) != Digest(1, 2, 3, args) {
		t.Error("another digest without items")
	}
}

// Notes: round trip, and every prefix is none.
func TestNote(t *testing.T) {
	i := Issued{1, 2, 3, 4, 5, Digest(1, 2, 3, nil)}
	b := i.append(nil)
	if got, _, ok := parseNote(b); !ok || *got != i {
		t.Error(got, ok)
	}
	for n := range b {
		if _, _, ok := parseNote(b[:n]); ok {
			t.Errorf("%d octets are a note", n)
		}
	}
	keys := []callKey{{1, 2}, {3, 4}}
	b = appendOver(nil, keys)
	if _, over, ok := parseNote(b); !ok || len(over) != 2 || over[0] != keys[0] || over[1] != keys[1] {
		t.Error(over, ok)
	}
	if _, _, ok := parseNote(b[:len(b)-1]); ok {
		t.Error("a part of a key")
	}
}

// Any octets are a record, or none.
func FuzzRecord(f *testing.F) {
	f.Add(make([]byte, recordLen+rdmaLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := parseRecord(1, b); ok && len(r.Reply) != len(b)-recordLen-rdmaLen {
			t.Errorf("%d octets of %d", len(r.Reply), len(b))
		}
	})
}
