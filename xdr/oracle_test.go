package xdr_test

import (
	"bytes"
	"testing"

	oracle "github.com/davecgh/go-xdr/xdr2"
	"github.com/google/go-cmp/cmp"
	"github.com/stag-rdma/stag/xdr"
	"pgregory.net/rapid"
)

// oracleCall is CallHeader as an independent codec sees it.
type oracleCall struct {
	XID, MType, RPCVers, Prog, Vers, Proc uint32
	CredFlavor                            uint32
	CredBody                              []byte
	VerfFlavor                            uint32
	VerfBody                              []byte
}

// oracleCred is SysCred as an independent codec sees it.
type oracleCred struct {
	Stamp       uint32
	MachineName string
	UID, GID    uint32
	GIDs        []uint32
}

// Every primitive, and headers made of them, in both directions against
// github.com/davecgh/go-xdr.
func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := struct {
			U32 uint32
			I32 int32
			U64 uint64
			I64 int64
			B   bool
			O   []byte
			S   string
		}{
			rapid.Uint32().Draw(t, "u32"), rapid.Int32().Draw(t, "i32"), rapid.Uint64().Draw(t, "u64"),
			rapid.Int64().Draw(t, "i64"), rapid.Bool().Draw(t, "b"),
			rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "o"), rapid.String().Draw(t, "s"),
		}
		w := new(bytes.Buffer)
		if _, err := oracle.Marshal(w, &v); err != nil {
			t.Fatal(err)
		}
		b := xdr.AppendInt64(xdr.AppendUint64(xdr.AppendInt32(xdr.AppendUint32(nil, v.U32), v.I32), v.U64), v.I64)
		b = xdr.AppendString(xdr.AppendOpaque(xdr.AppendBool(b, v.B), v.O), v.S)
		if !bytes.Equal(b, w.Bytes()) {
			t.Fatalf("wrote %x, oracle %x", b, w.Bytes())
		}
		d := xdr.NewDecoder(w.Bytes())
		if d.Uint32() != v.U32 || d.Int32() != v.I32 || d.Uint64() != v.U64 || d.Int64() != v.I64 ||
			d.Bool() != v.B || !bytes.Equal(d.Opaque(40), v.O) || d.String(len(v.S)) != v.S || d.End() != nil {
			t.Fatalf("read of %x: %v", w.Bytes(), d.Err())
		}
	})
}

func TestHeadersAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, xdr.MaxAuthBody)
		cred := xdr.SysCred{
			Stamp: rapid.Uint32().Draw(t, "stamp"), MachineName: rapid.StringN(0, 60, xdr.MaxMachineName).Draw(t, "name"),
			UID: rapid.Uint32().Draw(t, "uid"), GID: rapid.Uint32().Draw(t, "gid"),
			GIDs: rapid.SliceOfN(rapid.Uint32(), 1, xdr.MaxGIDs).Draw(t, "gids"),
		}
		h := xdr.CallHeader{
			XID: rapid.Uint32().Draw(t, "xid"), RPCVers: 2, Prog: rapid.Uint32().Draw(t, "prog"),
			Vers: rapid.Uint32().Draw(t, "vers"), Proc: rapid.Uint32().Draw(t, "proc"),
			Cred: cred.Auth(), Verf: xdr.Auth{Flavor: xdr.AuthFlavor(rapid.Uint32().Draw(t, "flavor")), Body: body.Draw(t, "verf")},
		}
		var oc oracleCall
		if _, err := oracle.Unmarshal(bytes.NewReader(xdr.AppendCall(nil, &h)), &oc); err != nil {
			t.Fatal(err)
		}
		want := oracleCall{
			h.XID, xdr.MsgCall, 2, h.Prog, h.Vers, h.Proc,
			uint32(h.Cred.Flavor), h.Cred.Body, uint32(h.Verf.Flavor), h.Verf.Body,
		}
		if len(want.VerfBody) == 0 {
			want.VerfBody = oc.VerfBody // nil or empty: the same on the wire
		}
		if diff := cmp.Diff(want, oc); diff != "" {
			t.Fatalf("call, -ours +oracle:\n%s", diff)
		}
		var os oracleCred
		if _, err := oracle.Unmarshal(bytes.NewReader(oc.CredBody), &os); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cred, xdr.SysCred(os)); diff != "" {
			t.Fatalf("credential, -ours +oracle:\n%s", diff)
		}
	})
}

// Any octets: where we read, the oracle reads the same; where we refuse, it
// does, or refuses to be bounded.
func FuzzAgainstOracle(f *testing.F) {
	f.Add(unhex(f, "00000001000000000000000200000001000000036162630000000002616200ff"))
	f.Add(unhex(f, "000000010000000000000002000000020000000361626300"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := xdr.NewDecoder(b)
		u32, i64, flag, o, s := d.Uint32(), d.Int64(), d.Bool(), d.Opaque(1<<16), d.String(1<<16)
		od := oracle.NewDecoderLimited(bytes.NewReader(b), 1<<16)
		wu32, _, e1 := od.DecodeUint()
		wi64, _, e2 := od.DecodeHyper()
		wflag, _, e3 := od.DecodeBool()
		wo, _, e4 := od.DecodeOpaque()
		ws, n, e5 := od.DecodeString()
		failed := e1 != nil || e2 != nil || e3 != nil || e4 != nil || e5 != nil
		if failed != (d.Err() != nil) {
			t.Fatalf("we: %v, oracle: %v %v %v %v %v", d.Err(), e1, e2, e3, e4, e5)
		}
		if failed {
			return
		}
		if u32 != wu32 || i64 != wi64 || flag != wflag || !bytes.Equal(o, wo) || s != ws || n < 4 {
			t.Fatalf("we read %v %v %v %x %q, oracle %v %v %v %x %q", u32, i64, flag, o, s, wu32, wi64, wflag, wo, ws)
		}
	})
}
