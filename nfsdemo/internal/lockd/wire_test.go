package lockd_test

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/xdr"
)

var lock = lockd.Lock{Caller: []byte("c"), File: []byte{1, 2, 3, 4}, Owner: []byte("7@c"), ID: 7, Offset: 1 << 20, Len: 5}

// table has a message of each kind, and its octets in version 4 as the XDR of the specification gives them.
var table = []struct {
	m    lockd.Message
	wire string
}{
	{
		&lockd.LockArgs{Cookie: []byte{9}, Block: true, Exclusive: true, Lock: lock, Reclaim: true, State: 3},
		"00000001 09000000 00000001 00000001" + wireLock + "00000001 00000003",
	},
	{&lockd.CancelArgs{Cookie: []byte{9}, Block: true, Lock: lock}, "00000001 09000000 00000001 00000000" + wireLock},
	{&lockd.TestArgs{Cookie: []byte{9}, Exclusive: true, Lock: lock}, "00000001 09000000 00000001" + wireLock},
	{&lockd.UnlockArgs{Cookie: []byte{9}, Lock: lock}, "00000001 09000000" + wireLock},
	{&lockd.Res{Cookie: []byte{9}, Status: lockd.Stale}, "00000001 09000000 00000007"},
	{&lockd.TestRes{Cookie: []byte{9}, Status: lockd.Granted}, "00000001 09000000 00000000"},
	{
		&lockd.TestRes{Cookie: []byte{9}, Status: lockd.Denied, Exclusive: true, ID: 7, Owner: []byte("abcd"), Offset: 1, Len: 2},
		"00000001 09000000 00000001 00000001 00000007 00000004 61626364 0000000000000001 0000000000000002",
	},
}

const wireLock = "00000001 63000000 00000004 01020304 00000003 37406300 00000007 0000000000100000 0000000000000005"

func octets(t testing.TB, s string) []byte {
	b := must(hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil))))(t)
	return b
}

func fresh(m lockd.Message) lockd.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(lockd.Message)
}

// TestWire compares each message with its octets, in both directions.
func TestWire(t *testing.T) {
	for _, r := range table {
		want := octets(t, r.wire)
		if got := lockd.Append(nil, r.m, lockd.Version4); !bytes.Equal(got, want) {
			t.Errorf("%T: %x, want %x", r.m, got, want)
		}
		for _, vers := range []uint32{lockd.Version1, lockd.Version3, lockd.Version4} {
			wire, m := lockd.Append(nil, r.m, vers), fresh(r.m)
			d := xdr.NewDecoder(wire)
			if err := lockd.Parse(&d, m, vers); err != nil || d.End() != nil {
				t.Errorf("%T, version %d: %v, %v", m, vers, err, d.End())
			}
			if again := lockd.Append(nil, m, vers); !bytes.Equal(again, wire) {
				t.Errorf("%T, version %d: %x, then %x", m, vers, wire, again)
			}
			for n := range wire {
				d := xdr.NewDecoder(wire[:n])
				if lockd.Parse(&d, fresh(r.m), vers) == nil {
					t.Errorf("%T: %d of %d octets were enough", m, n, len(wire))
				}
			}
		}
	}
}

// TestOldVersions: what 32 bits cannot say becomes the nearest that they can.
func TestOldVersions(t *testing.T) {
	r := lockd.TestRes{Status: lockd.Denied, Offset: 1 << 40, Len: 1 << 33}
	d := xdr.NewDecoder(lockd.Append(nil, &r, lockd.Version3))
	var got lockd.TestRes
	if err := lockd.Parse(&d, &got, lockd.Version3); err != nil || got.Offset != 1<<32-1 || got.Len != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	res := lockd.Res{Status: lockd.Stale}
	d = xdr.NewDecoder(lockd.Append(nil, &res, lockd.Version1))
	if err := lockd.Parse(&d, &res, lockd.Version1); err != nil || res.Status != lockd.DeniedNoLocks {
		t.Errorf("%v, %v", res.Status, err)
	}
}

// FuzzParse parses any octets as any message: what parses is encoded again to as many octets.
func FuzzParse(f *testing.F) {
	for i, r := range table {
		f.Add(uint8(i), lockd.Append(nil, r.m, lockd.Version4))
		f.Add(uint8(i|0x80), lockd.Append(nil, r.m, lockd.Version3))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		vers := uint32(lockd.Version4)
		if which&0x80 != 0 {
			vers = lockd.Version3
		}
		m := fresh(table[int(which&0x7f)%len(table)].m)
		d := xdr.NewDecoder(b)
		if lockd.Parse(&d, m, vers) != nil {
			return
		}
		again := lockd.Append(nil, m, vers)
		if len(again) != len(b)-d.Len() {
			t.Fatalf("%T: %d octets parsed, %d encoded", m, len(b)-d.Len(), len(again))
		}
	})
}

// TestWire compares the messages with their octets, in both directions.
func TestNsmWire(t *testing.T) {
	n := lockd.Notify{Name: []byte("abc"), State: 5}
	b := xdr.Encode(nil, &n)
	if got := hex.EncodeToString(b); got != "000000036162630000000005" {
		t.Error(got)
	}
	var back lockd.Notify
	d := xdr.NewDecoder(b)
	if err := xdr.Decode(&d, &back).Err(); err != nil || d.End() != nil || string(back.Name) != "abc" || back.State != 5 {
		t.Errorf("%+v, %v", back, err)
	}
	r := lockd.StatRes{Outcome: lockd.Fail, State: 7}
	d = xdr.NewDecoder(xdr.Encode(nil, &r))
	var res lockd.StatRes
	if err := xdr.Decode(&d, &res).Err(); err != nil || d.End() != nil || res != r {
		t.Errorf("%+v, %v", res, err)
	}
}

// FuzzNotify parses any octets.
func FuzzNotify(f *testing.F) {
	f.Add(xdr.Encode(nil, &lockd.Notify{Name: []byte("abc"), State: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n lockd.Notify
		d := xdr.NewDecoder(b)
		if xdr.Decode(&d, &n).Err() == nil && len(xdr.Encode(nil, &n)) != len(b)-d.Len() {
			t.Fatalf("%+v from %x", n, b)
		}
	})
}
