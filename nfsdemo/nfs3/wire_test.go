package nfs3_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"runtime"
	"testing"
	"time"

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

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"NFS3_OK": nfs3.OK, "NFS3ERR_JUKEBOX": nfs3.ErrJukebox, "nfsstat3(0x2a)": nfs3.Status(42),
		"READDIRPLUS": nfs3.ProcReadDirPlus, "nfsproc3(0x16)": nfs3.Proc(22), "NF3LNK": nfs3.TypeLnk, "ftype3(0x0)": nfs3.FileType(0),
		"SET_TO_CLIENT_TIME": nfs3.ClientTime, "time_how(0x3)": nfs3.TimeHow(3), "FILE_SYNC": nfs3.FileSync,
		"stable_how(0xffffffff)": nfs3.StableHow(1<<32 - 1), "EXCLUSIVE": nfs3.Exclusive, "createmode3(0x9)": nfs3.CreateMode(9),
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if p := nfs3.Proc(22); p.Known() || p.NewArgs() != nil || p.NewRes() != nil || p.MaxRes() != 0 {
		t.Error("procedure 22 is known")
	}
}

func TestStatusError(t *testing.T) {
	if nfs3.OK.Err() != nil {
		t.Error("OK is an error")
	}
	err := fmt.Errorf("open: %w", nfs3.ErrNoEnt.Err())
	if s, ok := errors.AsType[nfs3.Status](err); !ok || s != nfs3.ErrNoEnt || err.Error() != "open: nfs3: NFS3ERR_NOENT" {
		t.Errorf("%v", err)
	}
	for target, list := range map[error][]nfs3.Status{
		fs.ErrNotExist: {nfs3.ErrNoEnt, nfs3.ErrStale}, fs.ErrExist: {nfs3.ErrExist, nfs3.ErrNotEmpty},
		fs.ErrPermission: {nfs3.ErrPerm, nfs3.ErrAcces}, fs.ErrInvalid: {nfs3.ErrInval},
	} {
		for s := range *nfs3.StatusNames {
			want := false
			for _, l := range list {
				want = want || l == s
			}
			if errors.Is(s, target) != want {
				t.Errorf("errors.Is(%v, %v) = %v", s, target, !want)
			}
		}
	}
}

func TestTime(t *testing.T) {
	for _, c := range []struct {
		sec, nsec int64
		want      nfs3.Time
	}{
		{0, 0, nfs3.Time{}},
		{1, 2, nfs3.Time{1, 2}},
		{-1, 5, nfs3.Time{}},
		{1<<32 - 1, 9, nfs3.Time{1<<32 - 1, 9}},
		{1 << 32, 0, nfs3.Time{1<<32 - 1, 999999999}},
		{1 << 40, 0, nfs3.Time{1<<32 - 1, 999999999}},
	} {
		if got := nfs3.UnixTime(c.sec, c.nsec); got != c.want {
			t.Errorf("UnixTime(%d, %d) = %v, want %v", c.sec, c.nsec, got, c.want)
		}
	}
	now := time.Unix(1790000000, 123456789)
	if got := nfs3.TimeOf(now).Time(); !got.Equal(now) {
		t.Errorf("%v, want %v", got, now)
	}
	if a := (&nfs3.Attr{Size: 1, Mtime: nfs3.Time{2, 3}, Ctime: nfs3.Time{4, 5}}).Wcc(); a != (nfs3.WccAttr{1, nfs3.Time{2, 3}, nfs3.Time{4, 5}}) {
		t.Errorf("%+v", a)
	}
	if !(&nfs3.SetAttr{Mode: 5}).IsZero() || (&nfs3.SetAttr{SetSize: true}).IsZero() || (&nfs3.SetAttr{MtimeHow: nfs3.ServerTime}).IsZero() {
		t.Error("IsZero")
	}
}

// TestHeads: head, count word and item are the message, in both directions. A head that failed has no item.
func TestHeads(t *testing.T) {
	data := []byte("hello")
	for _, m := range []interface {
		xdr.Message
		Head() xdr.Message
	}{
		&nfs3.WriteArgs{Handle: fh, Offset: 1, Count: 5, Data: data}, &nfs3.SymlinkArgs{Where: where, Path: "hello"},
		&nfs3.ReadRes{Attr: some, Count: 5, Data: data}, &nfs3.ReadLinkRes{Attr: some, Path: "hello"},
		&nfs3.ReadRes{Status: nfs3.ErrStale}, &nfs3.ReadLinkRes{Status: nfs3.ErrStale}, &nfs3.ReadDirRes{Status: nfs3.ErrStale},
	} {
		whole, item := xdr.Encode(nil, m), xdr.AppendOpaque(nil, data)
		if r, ok := m.(nfs3.Result); ok && *r.Stat() != nfs3.OK {
			item = nil
		}
		head := xdr.Encode(nil, m.Head())
		if got := append(bytes.Clone(head), item...); !bytes.Equal(got, whole) {
			t.Errorf("%T: %x", m, got)
		}
		d := xdr.NewDecoder(whole)
		if err := xdr.Decode(&d, m.Head()).Err(); err != nil || d.Len() != len(item) {
			t.Errorf("%T: head leaves %d octets, %v", m, d.Len(), err)
		}
	}
}

// TestEntrySizes: Size returns the number of octets of an entry and the word that announces it.
func TestEntrySizes(t *testing.T) {
	for _, name := range []string{"", "a", "ab", "abc", "abcd", "abcde"} {
		e := nfs3.DirPlusEntry{DirEntry: nfs3.DirEntry{1, name, 2}}
		if got := 4 + len(xdr.Encode(nil, &e.DirEntry)); got != e.DirEntry.Size() {
			t.Errorf("%q: %d octets, Size %d", name, got, e.DirEntry.Size())
		}
		for _, full := range []bool{false, true} {
			if full {
				e.Attr, e.Handle = some, nfs3.SomeHandle(nfs3.FileHandle(name))
			}
			if got := 4 + len(xdr.Encode(nil, &e)); got != e.Size() {
				t.Errorf("%q plus: %d octets, Size %d", name, got, e.Size())
			}
		}
	}
}

// TestAllocs: the steps of a server for every READ, WRITE, GETATTR and ACCESS allocate nothing.
func TestAllocs(t *testing.T) {
	get := xdr.Encode(nil, &nfs3.GetAttrArgs{fh})
	access := xdr.Encode(nil, &nfs3.AccessArgs{fh, 3})
	read := xdr.Encode(nil, &nfs3.ReadArgs{fh, 1, 2})
	write := xdr.Encode(nil, &nfs3.WriteArgs{Handle: fh, Count: 5, Data: []byte("hello")})
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() {
		var (
			r  nfs3.ReadArgs
			w  nfs3.WriteArgs
			g  nfs3.GetAttrArgs
			a  nfs3.AccessArgs
			rr = nfs3.ReadRes{Attr: some}
			wr = nfs3.WriteRes{Wcc: wcc}
			gr = nfs3.GetAttrRes{Attr: attr}
			ar = nfs3.AccessRes{Attr: some}
			l  = nfs3.LookupRes{Handle: fh, Attr: some}
		)
		d := xdr.NewDecoder(read)
		xdr.Decode(&d, &r)
		d = xdr.NewDecoder(write)
		xdr.Decode(&d, &w)
		buf = xdr.Encode(xdr.Encode(buf[:0], rr.Head()), &wr)
		d = xdr.NewDecoder(get)
		xdr.Decode(&d, &g)
		d = xdr.NewDecoder(access)
		xdr.Decode(&d, &a)
		buf = xdr.Encode(xdr.Encode(xdr.Encode(buf[:0], &gr), &ar), &l)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
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

// maxCost bounds it: lists grow by doubling, and an entry of a directory listing takes
// up to ten times the octets it has on the wire.
func maxCost(n int) uint64 { return uint64(32*n) + 256<<10 }

// TestHostileWords puts large values into every word of every message: none of them is
// believed when memory is allocated (ADVERSARY row 18).
func TestHostileWords(t *testing.T) {
	for _, r := range table {
		for off := 0; off+4 <= len(r.wire); off += 4 {
			for _, w := range hostileWords {
				b := bytes.Clone(r.wire)
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
		f.Add(uint32(r.p), r.res, r.wire)
	}
	f.Add(uint32(nfs3.ProcReadDirPlus), true, x(0, 0, 0, 0, 1, 0xffff, 0xffff, uint32(0xffffffff)))
	f.Fuzz(func(t *testing.T, proc uint32, res bool, b []byte) {
		r := row{p: nfs3.Proc(proc % nfs3.ProcCount), res: res}
		if m := r.fresh(); parseCost(m, b) > maxCost(len(b)) {
			t.Fatalf("%T: too much allocated for %d octets", m, len(b))
		}
	})
}

// fuzzMessage checks one message type on arbitrary octets: what parses is encoded again to
// the octets consumed, except pads, and parses again.
func fuzzMessage(t *testing.T, fresh func() xdr.Message, b []byte) {
	m := fresh()
	d := xdr.NewDecoder(b)
	if xdr.Decode(&d, m).Err() != nil {
		return
	}
	used := len(b) - d.Len()
	again := xdr.Encode(nil, m)
	if len(again) != used {
		t.Fatalf("%T: %d octets parsed, %d encoded", m, used, len(again))
	}
	m2 := fresh()
	d = xdr.NewDecoder(again)
	if err := xdr.Decode(&d, m2).Err(); err != nil || d.Len() != 0 {
		t.Fatalf("%T: own encoding: %v, %d octets left", m, err, d.Len())
	}
	if last := xdr.Encode(nil, m2); !bytes.Equal(last, again) {
		t.Fatalf("%T: %x, then %x", m, again, last)
	}
}

func addSeeds(f *testing.F, res bool) {
	for _, r := range table {
		if r.res == res {
			f.Add(uint32(r.p), r.wire)
			if len(r.wire) > 4 {
				f.Add(uint32(r.p), r.wire[:len(r.wire)-3])
			}
		}
	}
}

func FuzzArgs(f *testing.F) {
	addSeeds(f, false)
	f.Fuzz(func(t *testing.T, proc uint32, b []byte) { fuzzMessage(t, nfs3.Proc(proc%nfs3.ProcCount).NewArgs, b) })
}

func FuzzRes(f *testing.F) {
	addSeeds(f, true)
	f.Fuzz(func(t *testing.T, proc uint32, b []byte) { fuzzMessage(t, nfs3.Proc(proc%nfs3.ProcCount).NewRes, b) })
}
