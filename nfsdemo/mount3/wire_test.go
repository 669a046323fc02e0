package mount3_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

type row struct {
	name string
	p    mount3.Proc
	res  bool
	msg  xdr.Message
	wire string
}

var table = []row{
	{"null", mount3.ProcNull, false, &nfs3.Void{}, ""},
	{"umntall", mount3.ProcUmntAll, true, &nfs3.Void{}, ""},
	{"mnt", mount3.ProcMnt, false, &mount3.PathArgs{"/srv"}, "000000042f737276"},
	{
		"mnt ok", mount3.ProcMnt, true, &mount3.MountRes{Handle: nfs3.FileHandle("fh1"), Flavors: []xdr.AuthFlavor{1, 0}},
		"00000000 00000003 66683100 00000002 00000001 00000000",
	},
	{"mnt fail", mount3.ProcMnt, true, &mount3.MountRes{Status: mount3.ErrAcces}, "0000000d"},
	{
		"dump", mount3.ProcDump, true, &mount3.DumpRes{Mounts: []mount3.Mount{{"c1", "/a"}, {"c2", "/b"}}},
		"00000001 00000002 63310000 00000002 2f610000 00000001 00000002 63320000 00000002 2f620000 00000000",
	},
	{
		"export", mount3.ProcExport, true, &mount3.ExportRes{Exports: []mount3.Export{{Dir: "/a", Groups: []string{"g"}}, {Dir: "/b"}}},
		"00000001 00000002 2f610000 00000001 00000001 67000000 00000000 00000001 00000002 2f620000 00000000 00000000",
	},
	{"export none", mount3.ProcExport, true, &mount3.ExportRes{}, "00000000"},
}

func (r *row) fresh() xdr.Message {
	if r.res {
		return r.p.NewRes()
	}
	return r.p.NewArgs()
}

func (r *row) bytes() []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(r.wire, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func TestWire(t *testing.T) {
	for _, r := range table {
		want := r.bytes()
		if got := xdr.Encode(nil, r.msg); !bytes.Equal(got, want) {
			t.Errorf("%s\n got %x\nwant %x", r.name, got, want)
		}
		m := r.fresh()
		d := xdr.NewDecoder(want)
		if err := xdr.Decode(&d, m).Err(); err != nil || d.Len() != 0 {
			t.Errorf("%s: %v, %d octets left", r.name, err, d.Len())
		}
		if diff := cmp.Diff(r.msg, m, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.name, diff)
		}
		for n := range len(want) {
			d := xdr.NewDecoder(want[:n])
			if err := xdr.Decode(&d, r.fresh()).Err(); !errors.Is(err, xdr.ErrShort) {
				t.Errorf("%s: %d of %d octets: %v", r.name, n, len(want), err)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	long := mount3.PathArgs{strings.Repeat("p", mount3.MaxPath+1)}
	d := xdr.NewDecoder(xdr.Encode(nil, &long))
	if err := xdr.Decode(&d, new(mount3.PathArgs)).Err(); !errors.Is(err, xdr.ErrRange) {
		t.Errorf("path of 1025 octets: %v", err)
	}
	// A count of flavors far beyond the octets that follow must not allocate memory.
	b := append(xdr.Encode(nil, &mount3.MountRes{Handle: nfs3.FileHandle("fh12")})[:12], 0xff, 0xff, 0xff, 0xff)
	d = xdr.NewDecoder(b)
	if err := xdr.Decode(&d, new(mount3.MountRes)).Err(); !errors.Is(err, xdr.ErrShort) {
		t.Errorf("2^32-1 flavours: %v", err)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"MNT": mount3.ProcMnt, "mountproc3(0x6)": mount3.Proc(6), "MNT3_OK": mount3.OK, "MNT3ERR_SERVERFAULT": mount3.ErrServerFault,
		"mountstat3(0x3)": mount3.Status(3),
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if mount3.OK.Err() != nil || mount3.ErrNoEnt.Err().Error() != "mount3: MNT3ERR_NOENT" {
		t.Error("Err")
	}
	if mount3.Proc(6).NewArgs() != nil || mount3.Proc(6).NewRes() != nil {
		t.Error("procedure 6 is known")
	}
}

func FuzzMessages(f *testing.F) {
	for _, r := range table {
		f.Add(uint32(r.p), r.res, r.bytes())
	}
	f.Fuzz(func(t *testing.T, proc uint32, res bool, b []byte) {
		r := row{p: mount3.Proc(proc % mount3.ProcCount), res: res}
		m := r.fresh()
		d := xdr.NewDecoder(b)
		if xdr.Decode(&d, m).Err() != nil {
			return
		}
		again := xdr.Encode(nil, m)
		if len(again) != len(b)-d.Len() {
			t.Fatalf("%T: %d octets parsed, %d encoded", m, len(b)-d.Len(), len(again))
		}
	})
}

// hostileWords are values that a length, count or discriminator should not have.
var hostileWords = []uint32{0x00ffffff, 0x3fffffff, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff}

// parseCost returns how much parsing b as m allocates, including other goroutines.
func parseCost(m xdr.Message, b []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := xdr.NewDecoder(b)
	_ = xdr.Decode(&d, m).Err()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxCost bounds it: lists grow by doubling.
func maxCost(n int) uint64 { return uint64(32*n) + 256<<10 }

// TestHostileWords puts large values into every word of every message: none of them is
// believed when memory is allocated (ADVERSARY row 18).
func TestHostileWords(t *testing.T) {
	for _, r := range table {
		wire := r.bytes()
		for off := 0; off+4 <= len(wire); off += 4 {
			for _, w := range hostileWords {
				b := bytes.Clone(wire)
				binary.BigEndian.PutUint32(b[off:], w)
				if got := parseCost(r.fresh(), b); got > maxCost(len(b)) {
					t.Errorf("%s: word at %d = %#x: %d octets allocated for %d", r.name, off, w, got, len(b))
				}
			}
		}
	}
}

// FuzzMemory parses any octets as any message within that bound.
func FuzzMemory(f *testing.F) {
	for _, r := range table {
		f.Add(uint32(r.p), r.res, r.bytes())
	}
	f.Fuzz(func(t *testing.T, proc uint32, res bool, b []byte) {
		r := row{p: mount3.Proc(proc % mount3.ProcCount), res: res}
		if m := r.fresh(); parseCost(m, b) > maxCost(len(b)) {
			t.Fatalf("%T: too much allocated for %d octets", m, len(b))
		}
	})
}
