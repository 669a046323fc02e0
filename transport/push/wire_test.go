package push

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/xdr"
)

// counted is a key with the octets from n on.
func counted(n byte) (k key) {
	for i := range k {
		k[i] = n + byte(i)
	}
	return k
}

// wire is implemented by types that can be encoded and decoded.
type wire interface {
	append(b []byte) []byte
	parse(d *xdr.Decoder)
}

// Golden octets, written down by hand from docs/push.x. Each form: octets and values are
// the same, every prefix is refused, nothing may follow.
func TestGolden(t *testing.T) {
	secret := Secret(counted(0xa0))
	for _, test := range []struct {
		name   string
		v      wire
		octets string
	}{
		{"open", &openArgs{Name: "l", Secret: secret, Instance: counted(0x10), Resume: true, Capacity: 1 << 20, Native: true}, `
			00000001 6c 000000
			a0a1a2a3a4a5a6a7a8a9aaabacadaeaf
			101112131415161718191a1b1c1d1e1f
			00000001 0000000000100000 00000001`},
		{"refused", &openRes{Status: StatusRefused}, "00000001"},
		{"opened", &openRes{Opened: opened{
			Session: counted(0x20), Commit: &rendezvous.Place{Token: rendezvous.Token(counted(0x30)), Addr: ":20050", Milliseconds: 10000},
			Answer: commitlog.Answer{
				ID: counted(0x40), Capacity: 4096, Mode: commitlog.WAL, Hash: commitlog.CRC32C, Persistent: true,
				Epoch: 7, Head: 64, Tail: 192, NextSeq: 4, LastEpoch: 6,
			},
		}}, `
			00000000 202122232425262728292a2b2c2d2e2f
			00000001 303132333435363738393a3b3c3d3e3f 00000006 3a3230303530 0000 00002710
			404142434445464748494a4b4c4d4e4f 0000000000001000
			00000002 00000001 00000002 00000007
			0000000000000040 00000000000000c0 0000000000000004 00000006`},
		{"append", &appendArgs{Session: counted(0x20), Seq: 4, Records: [][]byte{[]byte("one"), {}, []byte("four")}}, `
			202122232425262728292a2b2c2d2e2f 0000000000000004
			00000003 00000003 6f6e65 00 00000000 00000004 666f7572`},
		{"state", &stateRes{Head: 64, Next: 7, Level: commitlog.Placed}, "00000000 0000000000000040 0000000000000007 00000001"},
		{"release", &releaseArgs{Name: "l", Secret: secret, Seq: 3}, `
			00000001 6c 000000
			a0a1a2a3a4a5a6a7a8a9aaabacadaeaf 0000000000000003`},
		{"stale", &stateRes{Status: StatusStale}, "00000005"},
		{"read", &readArgs{Name: "l", Secret: secret, From: 3, Octets: 4096, Milliseconds: 5000}, `
			00000001 6c 000000 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf 0000000000000003 00001000 00001388`},
		{"records", &readRes{Records: []*commitlog.Record{{Seq: 3, Epoch: 1, Payload: []byte("one")}, {Seq: 4, Epoch: 2, Payload: []byte{}}}}, `
			00000000 00000002 0000000000000003 00000001 00000003 6f6e65 00 0000000000000004 00000002 00000000`},
		{"released", &readRes{Status: StatusReleased, First: 9}, "00000009 0000000000000009"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := rdmaptest.Hex(t, test.octets)
			if got := test.v.append(nil); !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got, want)
			}
			parse := func(b []byte) (wire, error) {
				v := reflect.New(reflect.TypeOf(test.v).Elem()).Interface().(wire)
				d := xdr.NewDecoder(b)
				v.parse(&d)
				return v, d.End()
			}
			if got, err := parse(want); err != nil || !reflect.DeepEqual(got, test.v) {
				t.Errorf("%+v %v, want %+v", got, err, test.v)
			}
			for n := range want {
				if _, err := parse(want[:n]); err == nil {
					t.Errorf("%d octets of %d parse", n, len(want))
				}
			}
			if _, err := parse(append(want, 0, 0, 0, 0)); err == nil {
				t.Error("octets after it parse")
			}
		})
	}
}

// A count of records that the octets cannot hold allocates nothing.
func TestCounts(t *testing.T) {
	b := append(make([]byte, keyLen+8), 0, 0, 4, 1)
	d := xdr.NewDecoder(b)
	var a appendArgs
	if a.parse(&d); d.End() == nil || cap(a.Records) > 0 {
		t.Errorf("allocated %d records although none follow", cap(a.Records))
	}
}
