package xdr_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stag-rdma/stag/xdr"
)

// goldenCred is the value of goldenSysCred.
func goldenCred() xdr.SysCred {
	return xdr.SysCred{Stamp: 0x5f000001, MachineName: "client1", UID: 1000, GID: 1000, GIDs: []uint32{1000, 27}}
}

func TestSysCredGolden(t *testing.T) {
	c := goldenCred()
	a := c.Auth()
	if got := hex.EncodeToString(a.Append(dirty(64))); got != goldenSysCred {
		t.Errorf("credential = %s, want %s", got, goldenSysCred)
	}
	if a.Size() != len(goldenSysCred)/2 {
		t.Errorf("Size = %d, want %d", a.Size(), len(goldenSysCred)/2)
	}
	got, err := xdr.ParseSysCred(a.Body)
	if diff := cmp.Diff(goldenCred(), got); err != nil || diff != "" {
		t.Errorf("parsed (%v), -want +got:\n%s", err, diff)
	}
	for n := range a.Body {
		if _, err := xdr.ParseSysCred(a.Body[:n]); !errors.Is(err, xdr.ErrShort) {
			t.Errorf("the first %d octets: %v, want ErrShort", n, err)
		}
	}
}

func TestSysCredBad(t *testing.T) {
	var (
		c     = goldenCred()
		whole = c.Append(nil)
		word  = func(off int, v uint32) []byte {
			b := slices.Clone(whole)
			xdr.AppendUint32(b[:off], v)
			return b
		}
		name256 = xdr.AppendString(make([]byte, 4), strings.Repeat("n", 256))
		gids17  = append(word(24, 17), make([]byte, 4*17-8)...)
	)
	for _, tc := range []struct {
		name string
		body []byte
		want error
	}{
		{"empty", nil, xdr.ErrShort},
		{"name count 2^32-1", word(4, 1<<32-1), xdr.ErrRange},
		{"name of 256 octets", append(name256, make([]byte, 12)...), xdr.ErrRange},
		{"17 groups", gids17, xdr.ErrRange},
		{"more groups than octets", word(24, 3), xdr.ErrShort},
		{"trailing octets", append(slices.Clone(whole), 0, 0, 0, 0), xdr.ErrTrailing},
		{"fewer groups than octets", word(24, 1), xdr.ErrTrailing},
		{"above 400 octets", append(slices.Clone(whole), make([]byte, 400)...), xdr.ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := xdr.ParseSysCred(tc.body); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			h := xdr.CallHeader{RPCVers: 2, Cred: xdr.Auth{Flavor: xdr.AuthSys, Body: tc.body}}
			if got := h.CheckAuth(); got != xdr.AuthBadCred {
				t.Errorf("CheckAuth = %v, want AUTH_BADCRED", got)
			}
		})
	}
}

// What a server would not accept is left out, and the largest credential is
// within the bound of a body.
func TestSysCredLargest(t *testing.T) {
	c := xdr.SysCred{MachineName: strings.Repeat("m", 300), GIDs: make([]uint32, 40)}
	for i := range c.GIDs {
		c.GIDs[i] = uint32(i)
	}
	b := c.Append(nil)
	got, err := xdr.ParseSysCred(b)
	if err != nil || len(b) > xdr.MaxAuthBody {
		t.Fatalf("%d octets: %v", len(b), err)
	}
	if len(got.MachineName) != xdr.MaxMachineName || len(got.GIDs) != xdr.MaxGIDs || got.GIDs[15] != 15 {
		t.Errorf("name of %d octets, groups %v", len(got.MachineName), got.GIDs)
	}
}

// A SysCred copies: the input may be used again.
func TestSysCredCopies(t *testing.T) {
	c := goldenCred()
	b := c.Append(nil)
	got, err := xdr.ParseSysCred(b)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, bytes.Repeat([]byte{0xcc}, len(b)))
	if diff := cmp.Diff(goldenCred(), got); diff != "" {
		t.Errorf("after the input was overwritten, -want +got:\n%s", diff)
	}
}
