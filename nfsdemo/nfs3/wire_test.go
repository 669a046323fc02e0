package nfs3_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// x builds octets from RFC 4506 by hand: int is 4 octets, uint64 8, bool 4, and
// []byte its octets.
func x(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, p)
		case bool:
			v := 0
			if p {
				v = 1
			}
			b = append(b, x(v)...)
		case []byte:
			b = append(b, p...)
		default:
			panic(fmt.Sprintf("x: %T", p))
		}
	}
	return b
}

// s is an opaque with count and pad.
func s(v string) []byte {
	b := append(x(len(v)), v...)
	return append(b, make([]byte, -len(v)&3)...)
}

var (
	fh  = nfs3.FileHandle("handle-12")
	fh2 = nfs3.FileHandle("h2")

	attr = nfs3.Attr{
		Type: nfs3.TypeReg, Mode: 0o644, Nlink: 2, UID: 3, GID: 4, Size: 5 << 32, Used: 6, Rdev: nfs3.Device{7, 8},
		FSID: 9, FileID: 10, Atime: nfs3.Time{11, 12}, Mtime: nfs3.Time{13, 14}, Ctime: nfs3.Time{15, 16},
	}
	attrX = x(1, 0o644, 2, 3, 4, uint64(5<<32), uint64(6), 7, 8, uint64(9), uint64(10), 11, 12, 13, 14, 15, 16)

	some  = nfs3.OptAttr{Present: true, Attr: attr}
	someX = x(1, attrX)

	wcc  = nfs3.Wcc{Before: nfs3.OptWcc{true, nfs3.WccAttr{99, nfs3.Time{1, 2}, nfs3.Time{3, 4}}}, After: some}
	wccX = x(1, uint64(99), 1, 2, 3, 4, someX)

	set = nfs3.SetAttr{
		SetMode: true, Mode: 0o600, SetUID: true, UID: 1, SetGID: true, GID: 2, SetSize: true, Size: 3,
		AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{4, 5},
	}
	setX   = x(1, 0o600, 1, 1, 1, 2, 1, uint64(3), 1, 2, 4, 5)
	nosetX = x(0, 0, 0, 0, 0, 0)

	where  = nfs3.DirOpArgs{Dir: fh, Name: "name5"}
	whereX = x(s("handle-12"), s("name5"))

	verf = [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
)

type row struct {
	name string
	p    nfs3.Proc
	res  bool // results, not arguments
	msg  xdr.Message
	wire []byte
}

// table has every arm of every message.
var table = []row{
	{"null", nfs3.ProcNull, false, &nfs3.Void{}, nil},
	{"null res", nfs3.ProcNull, true, &nfs3.Void{}, nil},
	{"getattr", nfs3.ProcGetAttr, false, &nfs3.GetAttrArgs{fh}, s("handle-12")},
	{"getattr ok", nfs3.ProcGetAttr, true, &nfs3.GetAttrRes{Attr: attr}, x(0, attrX)},
	{"getattr fail", nfs3.ProcGetAttr, true, &nfs3.GetAttrRes{Status: nfs3.ErrStale}, x(70)},
	{"setattr", nfs3.ProcSetAttr, false, &nfs3.SetAttrArgs{Handle: fh, Attr: set, Guard: true, Ctime: nfs3.Time{1, 2}}, x(s("handle-12"), setX, 1, 1, 2)},
	{"setattr none", nfs3.ProcSetAttr, false, &nfs3.SetAttrArgs{Handle: fh}, x(s("handle-12"), nosetX, 0)},
	{"setattr ok", nfs3.ProcSetAttr, true, &nfs3.SetAttrRes{Wcc: wcc}, x(0, wccX)},
	{"setattr fail", nfs3.ProcSetAttr, true, &nfs3.SetAttrRes{Status: nfs3.ErrNotSync}, x(10002, 0, 0)},
	{"lookup", nfs3.ProcLookup, false, &where, whereX},
	{"lookup ok", nfs3.ProcLookup, true, &nfs3.LookupRes{Handle: fh2, Attr: some, DirAttr: some}, x(0, s("h2"), someX, someX)},
	{"lookup fail", nfs3.ProcLookup, true, &nfs3.LookupRes{Status: nfs3.ErrNoEnt, DirAttr: some}, x(2, someX)},
	{"access", nfs3.ProcAccess, false, &nfs3.AccessArgs{fh, nfs3.AccessAll}, x(s("handle-12"), 0x3f)},
	{"access ok", nfs3.ProcAccess, true, &nfs3.AccessRes{Attr: some, Access: nfs3.AccessRead | nfs3.AccessExecute}, x(0, someX, 0x21)},
	{"access fail", nfs3.ProcAccess, true, &nfs3.AccessRes{Status: nfs3.ErrIO}, x(5, 0)},
	{"readlink", nfs3.ProcReadLink, false, &nfs3.ReadLinkArgs{fh}, s("handle-12")},
	{"readlink ok", nfs3.ProcReadLink, true, &nfs3.ReadLinkRes{Attr: some, Path: "../x"}, x(0, someX, s("../x"))},
	{"readlink fail", nfs3.ProcReadLink, true, &nfs3.ReadLinkRes{Status: nfs3.ErrInval}, x(22, 0)},
	{"read", nfs3.ProcRead, false, &nfs3.ReadArgs{fh, 1 << 40, 8192}, x(s("handle-12"), uint64(1<<40), 8192)},
	{"read ok", nfs3.ProcRead, true, &nfs3.ReadRes{Attr: some, Count: 5, EOF: true, Data: []byte("hello")}, x(0, someX, 5, 1, s("hello"))},
	{"read none", nfs3.ProcRead, true, &nfs3.ReadRes{EOF: true}, x(0, 0, 0, 1, 0)},
	{"read fail", nfs3.ProcRead, true, &nfs3.ReadRes{Status: nfs3.ErrAcces, Attr: some}, x(13, someX)},
	{"write", nfs3.ProcWrite, false, &nfs3.WriteArgs{fh, 7, 5, nfs3.FileSync, []byte("hello")}, x(s("handle-12"), uint64(7), 5, 2, s("hello"))},
	{"write ok", nfs3.ProcWrite, true, &nfs3.WriteRes{Wcc: wcc, Count: 5, Committed: nfs3.DataSync, Verf: verf}, x(0, wccX, 5, 1, verf[:])},
	{"write fail", nfs3.ProcWrite, true, &nfs3.WriteRes{Status: nfs3.ErrFBig, Wcc: wcc}, x(27, wccX)},
	{"create", nfs3.ProcCreate, false, &nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: set}, x(whereX, 1, setX)},
	{"create unchecked", nfs3.ProcCreate, false, &nfs3.CreateArgs{Where: where}, x(whereX, 0, nosetX)},
	{"create exclusive", nfs3.ProcCreate, false, &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive, Verf: verf}, x(whereX, 2, verf[:])},
	{"create ok", nfs3.ProcCreate, true, &nfs3.CreateRes{Handle: nfs3.SomeHandle(fh2), Attr: some, DirWcc: wcc}, x(0, 1, s("h2"), someX, wccX)},
	{"create bare", nfs3.ProcCreate, true, &nfs3.CreateRes{}, x(0, 0, 0, 0, 0)},
	{"create fail", nfs3.ProcCreate, true, &nfs3.CreateRes{Status: nfs3.ErrExist, DirWcc: wcc}, x(17, wccX)},
	{"mkdir", nfs3.ProcMkdir, false, &nfs3.MkdirArgs{where, set}, x(whereX, setX)},
	{"symlink", nfs3.ProcSymlink, false, &nfs3.SymlinkArgs{where, set, "/to"}, x(whereX, setX, s("/to"))},
	{"mknod device", nfs3.ProcMknod, false, &nfs3.MknodArgs{where, nfs3.TypeChr, set, nfs3.Device{1, 3}}, x(whereX, 4, setX, 1, 3)},
	{"mknod fifo", nfs3.ProcMknod, false, &nfs3.MknodArgs{Where: where, Type: nfs3.TypeFIFO, Attr: set}, x(whereX, 7, setX)},
	{"mknod regular", nfs3.ProcMknod, false, &nfs3.MknodArgs{Where: where, Type: nfs3.TypeReg}, x(whereX, 1)},
	{"remove", nfs3.ProcRemove, false, &where, whereX},
	{"rmdir fail", nfs3.ProcRmdir, true, &nfs3.RmdirRes{Status: nfs3.ErrNotEmpty, Wcc: wcc}, x(66, wccX)},
	{"rename", nfs3.ProcRename, false, &nfs3.RenameArgs{where, nfs3.DirOpArgs{fh2, "to"}}, x(whereX, s("h2"), s("to"))},
	{"rename ok", nfs3.ProcRename, true, &nfs3.RenameRes{FromWcc: wcc}, x(0, wccX, 0, 0)},
	{"rename fail", nfs3.ProcRename, true, &nfs3.RenameRes{Status: nfs3.ErrXDev, ToWcc: wcc}, x(18, 0, 0, wccX)},
	{"link", nfs3.ProcLink, false, &nfs3.LinkArgs{fh2, where}, x(s("h2"), whereX)},
	{"link ok", nfs3.ProcLink, true, &nfs3.LinkRes{Attr: some, DirWcc: wcc}, x(0, someX, wccX)},
	{"link fail", nfs3.ProcLink, true, &nfs3.LinkRes{Status: nfs3.ErrMLink}, x(31, 0, 0, 0)},
	{"readdir", nfs3.ProcReadDir, false, &nfs3.ReadDirArgs{fh, 3, verf, 4096}, x(s("handle-12"), uint64(3), verf[:], 4096)},
	{
		"readdir ok", nfs3.ProcReadDir, true,
		&nfs3.ReadDirRes{Attr: some, Verf: verf, Entries: []nfs3.DirEntry{{1, "a", 2}, {3, "four", 5}}, EOF: true},
		x(0, someX, verf[:], 1, uint64(1), s("a"), uint64(2), 1, uint64(3), s("four"), uint64(5), 0, 1),
	},
	{"readdir fail", nfs3.ProcReadDir, true, &nfs3.ReadDirRes{Status: nfs3.ErrBadCookie, Attr: some}, x(10003, someX)},
	{"readdirplus", nfs3.ProcReadDirPlus, false, &nfs3.ReadDirPlusArgs{fh, 3, verf, 512, 4096}, x(s("handle-12"), uint64(3), verf[:], 512, 4096)},
	{
		"readdirplus ok", nfs3.ProcReadDirPlus, true,
		&nfs3.ReadDirPlusRes{Verf: verf, Entries: []nfs3.DirPlusEntry{
			{nfs3.DirEntry{1, "a", 2}, some, nfs3.SomeHandle(fh2)}, {DirEntry: nfs3.DirEntry{3, "four", 5}},
		}},
		x(0, 0, verf[:], 1, uint64(1), s("a"), uint64(2), someX, 1, s("h2"), 1, uint64(3), s("four"), uint64(5), 0, 0, 0, 0),
	},
	{"readdirplus fail", nfs3.ProcReadDirPlus, true, &nfs3.ReadDirPlusRes{Status: nfs3.ErrTooSmall}, x(10005, 0)},
	{
		"fsstat ok", nfs3.ProcFSStat, true, &nfs3.FSStatRes{nfs3.OK, some, 1, 2, 3, 4, 5, 6, 7},
		x(0, someX, uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6), 7),
	},
	{"fsstat fail", nfs3.ProcFSStat, true, &nfs3.FSStatRes{Status: nfs3.ErrIO}, x(5, 0)},
	{
		"fsinfo ok", nfs3.ProcFSInfo, true, &nfs3.FSInfoRes{nfs3.OK, some, 1, 2, 3, 4, 5, 6, 7, 8, nfs3.Time{9, 10}, 0x1b},
		x(0, someX, 1, 2, 3, 4, 5, 6, 7, uint64(8), 9, 10, 0x1b),
	},
	{"fsinfo fail", nfs3.ProcFSInfo, true, &nfs3.FSInfoRes{Status: nfs3.ErrStale}, x(70, 0)},
	{
		"pathconf ok", nfs3.ProcPathConf, true, &nfs3.PathConfRes{nfs3.OK, some, 1, 255, true, true, false, true},
		x(0, someX, 1, 255, 1, 1, 0, 1),
	},
	{"pathconf fail", nfs3.ProcPathConf, true, &nfs3.PathConfRes{Status: nfs3.ErrStale}, x(70, 0)},
	{"commit", nfs3.ProcCommit, false, &nfs3.CommitArgs{fh, 1, 2}, x(s("handle-12"), uint64(1), 2)},
	{"commit ok", nfs3.ProcCommit, true, &nfs3.CommitRes{Wcc: wcc, Verf: verf}, x(0, wccX, verf[:])},
	{"commit fail", nfs3.ProcCommit, true, &nfs3.CommitRes{Status: nfs3.ErrIO, Wcc: wcc}, x(5, wccX)},
}

// fresh returns an empty message of the row's kind.
func (r *row) fresh() xdr.Message {
	if r.res {
		return r.p.NewRes()
	}
	return r.p.NewArgs()
}

func TestWire(t *testing.T) {
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			// The junk in front shows that Append appends.
			if got := xdr.Encode([]byte{0xa5}, r.msg); !bytes.Equal(got[1:], r.wire) || got[0] != 0xa5 {
				t.Errorf("Append\n got %x\nwant %x", got[1:], r.wire)
			}
			m := r.fresh()
			if reflect.TypeOf(m) != reflect.TypeOf(r.msg) {
				t.Fatalf("the table makes a %T, want %T", m, r.msg)
			}
			d := xdr.NewDecoder(append(bytes.Clone(r.wire), 0xa5, 0xa5, 0xa5, 0xa5))
			if err := xdr.Decode(&d, m).Err(); err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if d.Len() != 4 {
				t.Errorf("%d octets left, want 4", d.Len())
			}
			if diff := cmp.Diff(r.msg, m, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			if res, ok := m.(nfs3.Result); ok && len(r.wire) > 0 {
				if want := nfs3.Status(binary.BigEndian.Uint32(r.wire)); *res.Stat() != want {
					t.Errorf("Stat %v, want %v", *res.Stat(), want)
				}
			}
			if r.res && len(r.wire) > r.p.MaxRes()+100 {
				t.Errorf("%d octets, MaxRes %d", len(r.wire), r.p.MaxRes())
			}
		})
	}
}

// TestTruncated: no prefix of a message parses.
func TestTruncated(t *testing.T) {
	for _, r := range table {
		for n := range len(r.wire) {
			d := xdr.NewDecoder(r.wire[:n])
			if err := xdr.Decode(&d, r.fresh()).Err(); !errors.Is(err, xdr.ErrShort) {
				t.Errorf("%s: %d of %d octets: %v", r.name, n, len(r.wire), err)
			}
		}
	}
}

// TestBadValues: enums and booleans that select an arm must have a defined value.
func TestBadValues(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  xdr.Message
		wire []byte
	}{
		{"handle of 65 octets", &nfs3.HandleArgs{}, x(65, make([]byte, 68))},
		{"file type 0", &nfs3.GetAttrRes{}, x(0, 0, attrX[4:])},
		{"file type 8", &nfs3.GetAttrRes{}, x(0, 8, attrX[4:])},
		{"bool 2", &nfs3.AccessRes{}, x(0, 2, attrX, 0)},
		{"time_how 3", &nfs3.MkdirArgs{}, x(whereX, 0, 0, 0, 0, 3, 0)},
		{"stable_how 3", &nfs3.WriteArgs{}, x(s("h"), uint64(0), 0, 3, 0)},
		{"createmode 3", &nfs3.CreateArgs{}, x(whereX, 3, nosetX)},
		{"mknod type 8", &nfs3.MknodArgs{}, x(whereX, 8)},
		{"guard 7", &nfs3.SetAttrArgs{}, x(s("h"), nosetX, 7)},
		{"committed 3", &nfs3.WriteRes{}, x(0, 0, 0, 0, 3, verf[:])},
		{"another entry 2", &nfs3.ReadDirRes{}, x(0, 0, verf[:], 2, 0)},
	} {
		d := xdr.NewDecoder(c.wire)
		if err := xdr.Decode(&d, c.msg).Err(); !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestVectors: octets from independent sources.
func TestVectors(t *testing.T) {
	handle := make(nfs3.FileHandle, 32)
	for i := range handle {
		handle[i] = byte(i)
	}
	h := "00000020000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"READ of 8192", xdr.Encode(nil, &nfs3.ReadArgs{handle, 0, 8192}), h + "000000000000000000002000"},
		{"WRITE of 8190, head", xdr.Encode(nil, (&nfs3.WriteArgs{Handle: handle, Count: 8190, Stable: nfs3.FileSync}).Head()), h + "000000000000000000001ffe00000002"},
		{"READ reply, head", xdr.Encode(nil, (&nfs3.ReadRes{Count: 5000, EOF: true}).Head()), "00000000" + "00000000" + "00001388" + "00000001"},
		{"STALE", xdr.Encode(nil, &nfs3.ReadRes{Status: nfs3.ErrStale}), "00000046" + "00000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestMaxRes: the largest results have the sizes of the table.
func TestMaxRes(t *testing.T) {
	big := make(nfs3.FileHandle, nfs3.MaxHandle)
	for p, msg := range map[nfs3.Proc]xdr.Message{
		nfs3.ProcGetAttr: &nfs3.GetAttrRes{Attr: attr}, nfs3.ProcSetAttr: &nfs3.SetAttrRes{Wcc: wcc},
		nfs3.ProcLookup: &nfs3.LookupRes{Handle: big, Attr: some, DirAttr: some}, nfs3.ProcAccess: &nfs3.AccessRes{Attr: some},
		nfs3.ProcReadLink: &nfs3.ReadLinkRes{Attr: some}, nfs3.ProcRead: &nfs3.ReadRes{Attr: some},
		nfs3.ProcWrite: &nfs3.WriteRes{Wcc: wcc}, nfs3.ProcCreate: &nfs3.NewRes{Handle: nfs3.SomeHandle(big), Attr: some, DirWcc: wcc},
		nfs3.ProcRename: &nfs3.RenameRes{FromWcc: wcc, ToWcc: wcc}, nfs3.ProcLink: &nfs3.LinkRes{Attr: some, DirWcc: wcc},
		nfs3.ProcReadDir: &nfs3.ReadDirRes{Attr: some}, nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusRes{Attr: some},
		nfs3.ProcFSStat: &nfs3.FSStatRes{Attr: some}, nfs3.ProcFSInfo: &nfs3.FSInfoRes{Attr: some},
		nfs3.ProcPathConf: &nfs3.PathConfRes{Attr: some}, nfs3.ProcCommit: &nfs3.CommitRes{Wcc: wcc},
	} {
		if got := len(xdr.Encode(nil, msg)); got != p.MaxRes() {
			t.Errorf("%v: %d octets, MaxRes %d", p, got, p.MaxRes())
		}
	}
}
