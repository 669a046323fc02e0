package nfs3_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestACL: octets of Linux's client and server (b-nfs3-ops.pcap, packets 600, 601 and the beginning of 605), and what
// nobody may send.
func TestACL(t *testing.T) {
	handle := "000000140100010100000000cd6774b19401000000000000"
	for _, tt := range []struct {
		octets    string
		got, want xdr.Message
	}{
		{
			handle + "00000003", &nfs3.GetACLArgs{},
			&nfs3.GetACLArgs{Handle: unhex(handle)[4:], Mask: nfs3.ACLAccess | nfs3.ACLAccessCount},
		},
		{
			"00000000000000010000000100000180000000010000000000000000000000000000000600000000000010000000000000000000000000000000000000000000000001946b0112421908b1006b0112402aea" +
				"54006b0112432756cd000000000300000004000000040000000100000000000000060000000400000000000000000000001000000000000000000000002000000000000000000000000000000000",
			&nfs3.GetACLRes{},
			&nfs3.GetACLRes{
				Attr: nfs3.SomeAttr(&nfs3.Attr{
					Type: nfs3.TypeReg, Mode: 0o600, Nlink: 1, Size: 6, Used: 4096, FileID: 404,
					Atime: nfs3.Time{1795232322, 420000000}, Mtime: nfs3.Time{1795232320, 720000000}, Ctime: nfs3.Time{1795232323, 660000000},
				}),
				Mask:   3,
				Access: nfs3.ACL{{nfs3.ACEUserObj, 0, 6}, {nfs3.ACEGroupObj, 0, 0}, {nfs3.ACEOther, 0, 0}},
			},
		},
		{
			handle + "00000005" + "00000005" + "00000005" +
				"000000010000000000000006" + "00000002000003e900000004" + "000000040000000000000004" + "000000100000000000000006" + "000000200000000000000000" +
				"00000004" + "00000004" +
				"000010010000000000000007" + "000010040000000000000005" + "000010100000000000000005" + "000010200000000000000000",
			&nfs3.SetACLArgs{},
			&nfs3.SetACLArgs{
				Handle: unhex(handle)[4:], Mask: nfs3.ACLAccess | nfs3.ACLDefault,
				Access:  nfs3.ACL{{nfs3.ACEUserObj, 0, 6}, {nfs3.ACEUser, 1001, 4}, {nfs3.ACEGroupObj, 0, 4}, {nfs3.ACEMask, 0, 6}, {nfs3.ACEOther, 0, 0}},
				Default: nfs3.ACL{{nfs3.ACEUserObj, 0, 7}, {nfs3.ACEGroupObj, 0, 5}, {nfs3.ACEOther, 0, 0}},
			},
		},
		{"0000271400000000", &nfs3.GetACLRes{}, &nfs3.GetACLRes{Status: nfs3.ErrNotSupp}},
		{"0000000100000000", &nfs3.SetACLRes{}, &nfs3.SetACLRes{Status: nfs3.ErrPerm}},
	} {
		d := xdr.NewDecoder(unhex(tt.octets))
		if err := xdr.Decode(&d, tt.got).Err(); err != nil || d.Len() != 0 || !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%T: %v, %d left\n got %+v\nwant %+v", tt.want, err, d.Len(), tt.got, tt.want)
		}
		if got := xdr.Encode(nil, tt.want); !bytes.Equal(got, unhex(tt.octets)) {
			t.Errorf("%T\n got %x\nwant %s", tt.want, got, tt.octets)
		}
		for n := range len(tt.octets) / 2 {
			d := xdr.NewDecoder(unhex(tt.octets)[:n])
			if err := xdr.Decode(&d, tt.got).Err(); !errors.Is(err, xdr.ErrShort) {
				t.Errorf("%T, %d octets: %v", tt.want, n, err)
			}
		}
	}
	for name, octets := range map[string]string{
		"1025 entries":   "00000000" + "00000001" + "00000401" + "00000401" + string(bytes.Repeat([]byte("000000020000000000000000"), 1025)),
		"another tag":    "00000000" + "00000001" + "00000001" + "00000001" + "000000030000000000000000" + "0000000000000000",
		"a default one":  "00000000" + "00000001" + "00000001" + "00000001" + "000020010000000000000000" + "0000000000000000",
		"no tag at all":  "00000000" + "00000001" + "00000001" + "00000001" + "000000000000000000000000" + "0000000000000000",
		"several at one": "00000000" + "00000001" + "00000001" + "00000001" + "000000050000000000000000" + "0000000000000000",
	} {
		d := xdr.NewDecoder(unhex(octets))
		if err := xdr.Decode(&d, new(nfs3.SetACLArgs)).Err(); err == nil || errors.Is(err, xdr.ErrShort) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
