package pushfile_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

type message interface {
	Append(b []byte) []byte
	Parse(d *xdr.Decoder)
}

var session = pushfile.Session{0x10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x1f}

const sessionHex = "100102030405060708090a0b0c0d0e1f"

// golden has the octets of every message, written down from docs/pushfile.x.
var golden = []struct {
	name string
	m    message
	hex  string
}{
	{"open", &pushfile.OpenArgs{Session: session, File: nfs3.FileHandle("handl"), Octets: 1 << 32}, sessionHex + "00000005" + "68616e646c000000" + "0000000100000000"},
	{"opened", &pushfile.OpenRes{Lease: 7, Reserved: 4096, Max: 65536}, "00000000" + "0000000000000007" + "0000000000001000" + "00010000"},
	{"refused", &pushfile.OpenRes{Status: pushfile.StatusBusy}, "00000002"},
	{"return", &pushfile.LeaseArgs{Session: session, Lease: 7}, sessionHex + "0000000000000007"},
	{"status", &pushfile.StatusArgs{Session: session}, sessionHex},
	{
		"state", &pushfile.StatusRes{State: pushfile.State{Applied: 9, Error: nfs3.ErrNoSpc, Record: 10, Lease: 7, Text: "full"}},
		"00000000" + "0000000000000009" + "0000001c" + "000000000000000a" + "0000000000000007" + "00000004" + "66756c6c",
	},
	{"stale", &pushfile.StatusRes{Status: pushfile.StatusStaleSession}, "00000008"},
	{"recall", &pushfile.RecallArgs{Session: session, Lease: 7, Milliseconds: 10000}, sessionHex + "0000000000000007" + "00002710"},
}

// TestGolden: every message has the octets of docs/pushfile.x, and is read back from them;
// cut short anywhere, or with an octet too many, it is not read.
func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			b := g.m.Append(nil)
			if got := hex.EncodeToString(b); got != g.hex {
				t.Fatalf("got  %s\nwant %s", got, g.hex)
			}
			parse := func(b []byte) (message, error) {
				m := reflect.New(reflect.TypeOf(g.m).Elem()).Interface().(message)
				d := xdr.NewDecoder(b)
				m.Parse(&d)
				return m, d.End()
			}
			if m, err := parse(b); err != nil || !reflect.DeepEqual(m, g.m) {
				t.Errorf("%+v, %v; want %+v", m, err, g.m)
			}
			for n := range b {
				if _, err := parse(b[:n]); err == nil {
					t.Errorf("%d octets of %d are enough", n, len(b))
				}
			}
			if _, err := parse(append(b, 0, 0, 0, 0)); err == nil {
				t.Error("octets after the message")
			}
		})
	}
}

// TestRecord: octets that are not a record of this version are refused.
func TestRecord(t *testing.T) {
	good := (&pushfile.Record{Lease: 1, Offset: 2, Data: []byte{3}}).Append(nil)
	if _, err := pushfile.ParseRecord(good); err != nil {
		t.Fatal(err)
	}
	change := func(off int, b byte) []byte {
		c := bytes.Clone(good)
		c[off] = b
		return c
	}
	for name, b := range map[string][]byte{
		"empty":           nil,
		"no data":         good[:pushfile.RecordHead],
		"another magic":   change(0, 'x'),
		"another version": change(3, 2),
		"no lease":        change(11, 0),
		"wraps":           (&pushfile.Record{Lease: 1, Offset: math.MaxUint64, Data: []byte{3}}).Append(nil),
	} {
		if r, err := pushfile.ParseRecord(b); !errors.Is(err, pushfile.ErrRecord) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestStatusText: every status tells people something of its own, and a long text is cut.
func TestStatusText(t *testing.T) {
	seen := make(map[string]bool)
	for s := range pushfile.StatusIO + 2 {
		text := s.Error()
		if seen[text] || strings.HasSuffix(text, ": ") {
			t.Errorf("status %d: %q", s, text)
		}
		seen[text] = true
	}
	r := pushfile.StatusRes{State: pushfile.State{Text: strings.Repeat("x", 2*pushfile.MaxText)}}
	d := xdr.NewDecoder(r.Append(nil))
	if r.Parse(&d); d.End() != nil || len(r.State.Text) != pushfile.MaxText {
		t.Error(d.End(), len(r.State.Text))
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&pushfile.Record{Lease: 1, Offset: 2, Data: []byte{3}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := pushfile.ParseRecord(b)
		if err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%x is read as %+v", b, r)
		}
	})
}
