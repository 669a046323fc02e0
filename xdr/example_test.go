package xdr_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stag-rdma/stag/xdr"
)

// A structure is read field by field; one test at the end is enough.
func Example() {
	b := xdr.AppendUint32(nil, 1000)
	b = xdr.AppendString(b, "client1")
	b = xdr.AppendOpaque(b, []byte{0xca, 0xfe})

	d := xdr.NewDecoder(b)
	uid, name, handle := d.Uint32(), d.String(255), d.Opaque(64)
	fmt.Println(uid, name, handle, d.ErrIn("args"))

	d = xdr.NewDecoder(b[:10])
	uid, name, handle = d.Uint32(), d.String(255), d.Opaque(64)
	fmt.Println(uid, name == "", handle, d.ErrIn("args"))
	// Output:
	// 1000 client1 [202 254] <nil>
	// 1000 true [] xdr: args at octet 4: not enough octets
}

func ExampleNewDecoder() {
	b := xdr.AppendInt64(xdr.AppendInt32(nil, -1), -2)
	d := xdr.NewDecoder(xdr.AppendBool(xdr.AppendUint64(b, 3), true))
	fmt.Println(d.Int32(), d.Int64(), d.Uint64(), d.Bool(), d.Offset(), d.Len())
	// Output: -1 -2 3 true 24 0
}

func ExampleDecoder_Opaque() {
	b := xdr.AppendOpaque(nil, []byte("data"))
	d := xdr.NewDecoder(b)
	v := d.Opaque(1024)
	b[4] = 'D' // v is a view
	fmt.Printf("%s\n", v)

	d = xdr.NewDecoder([]byte{0xff, 0xff, 0xff, 0xff})
	fmt.Println(d.Opaque(1024) == nil, errors.Is(d.Err(), xdr.ErrRange))
	// Output:
	// Data
	// true true
}

func ExampleDecoder_FixedOpaque() {
	d := xdr.NewDecoder(xdr.AppendFixedOpaque(nil, []byte("abcde")))
	fmt.Printf("%s %d\n", d.FixedOpaque(5), d.Offset())
	// Output: abcde 8
}

func ExampleDecoder_Count() {
	b := xdr.AppendUint32(nil, 2)
	d := xdr.NewDecoder(xdr.AppendUint32(xdr.AppendUint32(b, 10), 20))
	list := make([]uint32, d.Count(16, 4)) // cannot exceed what the octets left hold
	for i := range list {
		list[i] = d.Uint32()
	}
	fmt.Println(list, d.Err())
	// Output: [10 20] <nil>
}

func ExampleDecoder_Fail() {
	d := xdr.NewDecoder(xdr.AppendUint32(nil, 9))
	if kind := d.Uint32(); kind > 7 {
		d.Fail(xdr.ErrRange)
	}
	fmt.Println(d.ErrIn("ftype3"))
	// Output: xdr: ftype3 at octet 4: value out of range
}

func ExampleDecoder_End() {
	d := xdr.NewDecoder(make([]byte, 12))
	d.Uint64()
	fmt.Printf("%x\n", d.Rest())
	fmt.Println(d.End())
	// Output:
	// 00000000
	// xdr: at octet 8: octets left after the last item
}

func ExampleDecoder_Skip() {
	d := xdr.NewDecoder([]byte{1, 2, 3, 4, 0, 0, 0, 7})
	d.Skip(4)
	fmt.Println(d.Uint32())
	// Output: 7
}

func ExamplePad() {
	fmt.Println(xdr.Pad(4), xdr.Pad(5), xdr.Pad(6), xdr.Pad(7))
	fmt.Println(len(xdr.AppendPad(nil, 5)))
	// Output:
	// 0 3 2 1
	// 3
}

func ExampleAppendCall() {
	cred := xdr.SysCred{MachineName: "client1", UID: 1000, GID: 1000}
	h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: 100003, Vers: 3, Cred: cred.Auth()}
	msg := xdr.AppendCall(nil, &h)
	msg = append(msg, "arguments..."...)

	xid, msgType, _ := xdr.PeekXID(msg)
	fmt.Println(xid, msgType == xdr.MsgCall, h.Size())

	var got xdr.CallHeader
	d := xdr.NewDecoder(msg)
	err := got.Parse(&d)
	fmt.Println(got.Prog, got.Vers, got.Proc, got.Cred.Flavor, err)
	fmt.Printf("%s\n", d.Rest())
	// Output:
	// 1 true 68
	// 100003 3 0 AUTH_SYS <nil>
	// arguments...
}

// A server asks first whether it owes a refusal.
func ExampleCallHeader_Refusal() {
	call := xdr.CallHeader{XID: 1, RPCVers: 2, Prog: 100003, Vers: 3, Cred: xdr.Auth{Flavor: xdr.AuthDH}}
	var h xdr.CallHeader
	d := xdr.NewDecoder(xdr.AppendCall(nil, &call))
	if r, owed := h.Refusal(h.Parse(&d)); owed {
		fmt.Printf("%x\n%v\n", xdr.AppendReply(nil, &r), r.Err())
	}
	// Output:
	// 0000000100000001000000010000000100000001
	// xdr: rpc call refused: AUTH_ERROR, AUTH_BADCRED
}

func ExampleCallHeader_CheckAuth() {
	h := xdr.CallHeader{RPCVers: 2, Cred: xdr.Auth{Flavor: xdr.AuthShort}}
	fmt.Println(h.CheckAuth())
	// Output: AUTH_REJECTEDCRED
}

func ExampleAppendReply() {
	msg := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 1, Accept: xdr.ProgMismatch, Low: 3, High: 3})

	var h xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	if err := h.Parse(&d); err != nil {
		panic(err)
	}
	if e, ok := errors.AsType[*xdr.RPCStatusError](h.Err()); ok {
		fmt.Println(e.Accept, e)
	}
	// Output: PROG_MISMATCH xdr: rpc call refused: PROG_MISMATCH, versions 3 to 3
}

func ExampleParseSysCred() {
	c := xdr.SysCred{Stamp: 1, MachineName: "client1", UID: 1000, GID: 100, GIDs: []uint32{100, 27}}
	got, err := xdr.ParseSysCred(c.Auth().Body)
	fmt.Printf("%+v %v\n", got, err)

	_, err = xdr.ParseSysCred([]byte("too short to be one"))
	fmt.Println(err) // a server answers AUTH_BADCRED
	// Output:
	// {Stamp:1 MachineName:client1 UID:1000 GID:100 GIDs:[100 27]} <nil>
	// xdr: machinename at octet 4: value out of range
}

func ExampleAuth() {
	a := xdr.Auth{Flavor: xdr.AuthShort, Body: []byte("abc")}
	b := a.Append(nil)
	fmt.Printf("%x %d\n", b, a.Size())
	d := xdr.NewDecoder(b)
	var got xdr.Auth
	got.Parse(&d)
	fmt.Printf("%v %s %v\n", got.Flavor, got.Body, d.Err())
	// Output:
	// 000000020000000361626300 12
	// AUTH_SHORT abc <nil>
}

func ExampleNewRecordReader() {
	var stream []byte
	stream = append(xdr.AppendRecordMark(stream, 3, false), "one"...) // in two fragments
	stream = append(xdr.AppendRecordMark(stream, 5, true), " more"...)
	stream = append(xdr.AppendRecordMark(stream, 3, true), "two"...)

	r := xdr.NewRecordReader(bytes.NewReader(stream), 1024)
	var buf []byte
	for {
		rec, err := r.Next(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", rec)
		buf = rec // its memory is used again
	}
	// Output:
	// one more
	// two
}

func ExampleAppendRecordMark() {
	fmt.Printf("%x\n", xdr.AppendRecordMark(nil, 40, true))
	// Output: 80000028
}
