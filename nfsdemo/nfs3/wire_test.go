package nfs3

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
	fh  = FileHandle("handle-12")
	fh2 = FileHandle("h2")

	attr = Attr{
		Type: TypeReg, Mode: 0o644, Nlink: 2, UID: 3, GID: 4, Size: 5 << 32, Used: 6, Rdev: Device{7, 8},
		FSID: 9, FileID: 10, Atime: Time{11, 12}, Mtime: Time{13, 14}, Ctime: Time{15, 16},
	}
	attrX = x(1, 0o644, 2, 3, 4, uint64(5<<32), uint64(6), 7, 8, uint64(9), uint64(10), 11, 12, 13, 14, 15, 16)

	some  = OptAttr{Present: true, Attr: attr}
	someX = x(1, attrX)

	wcc  = Wcc{Before: OptWcc{true, WccAttr{99, Time{1, 2}, Time{3, 4}}}, After: some}
	wccX = x(1, uint64(99), 1, 2, 3, 4, someX)

	set = SetAttr{
		SetMode: true, Mode: 0o600, SetUID: true, UID: 1, SetGID: true, GID: 2, SetSize: true, Size: 3,
		AtimeHow: ServerTime, MtimeHow: ClientTime, Mtime: Time{4, 5},
	}
	setX   = x(1, 0o600, 1, 1, 1, 2, 1, uint64(3), 1, 2, 4, 5)
	nosetX = x(0, 0, 0, 0, 0, 0)

	where  = DirOpArgs{Dir: fh, Name: "name5"}
	whereX = x(s("handle-12"), s("name5"))

	verf = [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
)

type row struct {
	name string
	p    Proc
	res  bool // results, not arguments
	msg  Message
	wire []byte
}

// table has every arm of every message.
var table = []row{
	{"null", ProcNull, false, &Void{}, nil},
	{"null res", ProcNull, true, &Void{}, nil},
	{"getattr", ProcGetAttr, false, &GetAttrArgs{fh}, s("handle-12")},
	{"getattr ok", ProcGetAttr, true, &GetAttrRes{Attr: attr}, x(0, attrX)},
	{"getattr fail", ProcGetAttr, true, &GetAttrRes{Status: ErrStale}, x(70)},
	{"setattr", ProcSetAttr, false, &SetAttrArgs{Handle: fh, Attr: set, Guard: true, Ctime: Time{1, 2}}, x(s("handle-12"), setX, 1, 1, 2)},
	{"setattr none", ProcSetAttr, false, &SetAttrArgs{Handle: fh}, x(s("handle-12"), nosetX, 0)},
	{"setattr ok", ProcSetAttr, true, &SetAttrRes{Wcc: wcc}, x(0, wccX)},
	{"setattr fail", ProcSetAttr, true, &SetAttrRes{Status: ErrNotSync}, x(10002, 0, 0)},
	{"lookup", ProcLookup, false, &where, whereX},
	{"lookup ok", ProcLookup, true, &LookupRes{Handle: fh2, Attr: some, DirAttr: some}, x(0, s("h2"), someX, someX)},
	{"lookup fail", ProcLookup, true, &LookupRes{Status: ErrNoEnt, DirAttr: some}, x(2, someX)},
	{"access", ProcAccess, false, &AccessArgs{fh, AccessAll}, x(s("handle-12"), 0x3f)},
	{"access ok", ProcAccess, true, &AccessRes{Attr: some, Access: AccessRead | AccessExecute}, x(0, someX, 0x21)},
	{"access fail", ProcAccess, true, &AccessRes{Status: ErrIO}, x(5, 0)},
	{"readlink", ProcReadLink, false, &ReadLinkArgs{fh}, s("handle-12")},
	{"readlink ok", ProcReadLink, true, &ReadLinkRes{Attr: some, Path: "../x", PathLen: 4}, x(0, someX, s("../x"))},
	{"readlink fail", ProcReadLink, true, &ReadLinkRes{Status: ErrInval}, x(22, 0)},
	{"read", ProcRead, false, &ReadArgs{fh, 1 << 40, 8192}, x(s("handle-12"), uint64(1<<40), 8192)},
	{"read ok", ProcRead, true, &ReadRes{Attr: some, Count: 5, EOF: true, Data: []byte("hello"), DataLen: 5}, x(0, someX, 5, 1, s("hello"))},
	{"read none", ProcRead, true, &ReadRes{EOF: true}, x(0, 0, 0, 1, 0)},
	{"read fail", ProcRead, true, &ReadRes{Status: ErrAcces, Attr: some}, x(13, someX)},
	{"write", ProcWrite, false, &WriteArgs{fh, 7, 5, FileSync, []byte("hello")}, x(s("handle-12"), uint64(7), 5, 2, s("hello"))},
	{"write ok", ProcWrite, true, &WriteRes{Wcc: wcc, Count: 5, Committed: DataSync, Verf: verf}, x(0, wccX, 5, 1, verf[:])},
	{"write fail", ProcWrite, true, &WriteRes{Status: ErrFBig, Wcc: wcc}, x(27, wccX)},
	{"create", ProcCreate, false, &CreateArgs{Where: where, Mode: Guarded, Attr: set}, x(whereX, 1, setX)},
	{"create unchecked", ProcCreate, false, &CreateArgs{Where: where}, x(whereX, 0, nosetX)},
	{"create exclusive", ProcCreate, false, &CreateArgs{Where: where, Mode: Exclusive, Verf: verf}, x(whereX, 2, verf[:])},
	{"create ok", ProcCreate, true, &CreateRes{Handle: SomeHandle(fh2), Attr: some, DirWcc: wcc}, x(0, 1, s("h2"), someX, wccX)},
	{"create bare", ProcCreate, true, &CreateRes{}, x(0, 0, 0, 0, 0)},
	{"create fail", ProcCreate, true, &CreateRes{Status: ErrExist, DirWcc: wcc}, x(17, wccX)},
	{"mkdir", ProcMkdir, false, &MkdirArgs{where, set}, x(whereX, setX)},
	{"symlink", ProcSymlink, false, &SymlinkArgs{where, set, "/to"}, x(whereX, setX, s("/to"))},
	{"mknod device", ProcMknod, false, &MknodArgs{where, TypeChr, set, Device{1, 3}}, x(whereX, 4, setX, 1, 3)},
	{"mknod fifo", ProcMknod, false, &MknodArgs{Where: where, Type: TypeFIFO, Attr: set}, x(whereX, 7, setX)},
	{"mknod regular", ProcMknod, false, &MknodArgs{Where: where, Type: TypeReg}, x(whereX, 1)},
	{"remove", ProcRemove, false, &where, whereX},
	{"rmdir fail", ProcRmdir, true, &RmdirRes{Status: ErrNotEmpty, Wcc: wcc}, x(66, wccX)},
	{"rename", ProcRename, false, &RenameArgs{where, DirOpArgs{fh2, "to"}}, x(whereX, s("h2"), s("to"))},
	{"rename ok", ProcRename, true, &RenameRes{FromWcc: wcc}, x(0, wccX, 0, 0)},
	{"rename fail", ProcRename, true, &RenameRes{Status: ErrXDev, ToWcc: wcc}, x(18, 0, 0, wccX)},
	{"link", ProcLink, false, &LinkArgs{fh2, where}, x(s("h2"), whereX)},
	{"link ok", ProcLink, true, &LinkRes{Attr: some, DirWcc: wcc}, x(0, someX, wccX)},
	{"link fail", ProcLink, true, &LinkRes{Status: ErrMLink}, x(31, 0, 0, 0)},
	{"readdir", ProcReadDir, false, &ReadDirArgs{fh, 3, verf, 4096}, x(s("handle-12"), uint64(3), verf[:], 4096)},
	{
		"readdir ok", ProcReadDir, true,
		&ReadDirRes{Attr: some, Verf: verf, Entries: []DirEntry{{1, "a", 2}, {3, "four", 5}}, EOF: true},
		x(0, someX, verf[:], 1, uint64(1), s("a"), uint64(2), 1, uint64(3), s("four"), uint64(5), 0, 1),
	},
	{"readdir fail", ProcReadDir, true, &ReadDirRes{Status: ErrBadCookie, Attr: some}, x(10003, someX)},
	{"readdirplus", ProcReadDirPlus, false, &ReadDirPlusArgs{fh, 3, verf, 512, 4096}, x(s("handle-12"), uint64(3), verf[:], 512, 4096)},
	{
		"readdirplus ok", ProcReadDirPlus, true,
		&ReadDirPlusRes{Verf: verf, Entries: []DirPlusEntry{
			{DirEntry{1, "a", 2}, some, SomeHandle(fh2)}, {DirEntry: DirEntry{3, "four", 5}},
		}},
		x(0, 0, verf[:], 1, uint64(1), s("a"), uint64(2), someX, 1, s("h2"), 1, uint64(3), s("four"), uint64(5), 0, 0, 0, 0),
	},
	{"readdirplus fail", ProcReadDirPlus, true, &ReadDirPlusRes{Status: ErrTooSmall}, x(10005, 0)},
	{
		"fsstat ok", ProcFSStat, true, &FSStatRes{OK, some, 1, 2, 3, 4, 5, 6, 7},
		x(0, someX, uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6), 7),
	},
	{"fsstat fail", ProcFSStat, true, &FSStatRes{Status: ErrIO}, x(5, 0)},
	{
		"fsinfo ok", ProcFSInfo, true, &FSInfoRes{OK, some, 1, 2, 3, 4, 5, 6, 7, 8, Time{9, 10}, 0x1b},
		x(0, someX, 1, 2, 3, 4, 5, 6, 7, uint64(8), 9, 10, 0x1b),
	},
	{"fsinfo fail", ProcFSInfo, true, &FSInfoRes{Status: ErrStale}, x(70, 0)},
	{
		"pathconf ok", ProcPathConf, true, &PathConfRes{OK, some, 1, 255, true, true, false, true},
		x(0, someX, 1, 255, 1, 1, 0, 1),
	},
	{"pathconf fail", ProcPathConf, true, &PathConfRes{Status: ErrStale}, x(70, 0)},
	{"commit", ProcCommit, false, &CommitArgs{fh, 1, 2}, x(s("handle-12"), uint64(1), 2)},
	{"commit ok", ProcCommit, true, &CommitRes{Wcc: wcc, Verf: verf}, x(0, wccX, verf[:])},
	{"commit fail", ProcCommit, true, &CommitRes{Status: ErrIO, Wcc: wcc}, x(5, wccX)},
}

// fresh returns an empty message of the row's kind.
func (r *row) fresh() Message {
	if r.res {
		return r.p.NewRes()
	}
	return r.p.NewArgs()
}

func TestWire(t *testing.T) {
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			// The junk in front shows that Append appends.
			if got := r.msg.Append([]byte{0xa5}); !bytes.Equal(got[1:], r.wire) || got[0] != 0xa5 {
				t.Errorf("Append\n got %x\nwant %x", got[1:], r.wire)
			}
			m := r.fresh()
			if reflect.TypeOf(m) != reflect.TypeOf(r.msg) {
				t.Fatalf("the table makes a %T, want %T", m, r.msg)
			}
			d := xdr.NewDecoder(append(bytes.Clone(r.wire), 0xa5, 0xa5, 0xa5, 0xa5))
			if err := m.Parse(&d); err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if d.Len() != 4 {
				t.Errorf("%d octets left, want 4", d.Len())
			}
			if diff := cmp.Diff(r.msg, m, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			if res, ok := m.(Result); ok && len(r.wire) > 0 {
				if want := Status(binary.BigEndian.Uint32(r.wire)); res.Stat() != want {
					t.Errorf("Stat %v, want %v", res.Stat(), want)
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
			if err := r.fresh().Parse(&d); !errors.Is(err, xdr.ErrShort) {
				t.Errorf("%s: %d of %d octets: %v", r.name, n, len(r.wire), err)
			}
		}
	}
}

// TestBadValues: enums and booleans that select an arm must have a defined value.
func TestBadValues(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  Message
		wire []byte
	}{
		{"handle of 65 octets", &HandleArgs{}, x(65, make([]byte, 68))},
		{"file type 0", &GetAttrRes{}, x(0, 0, attrX[4:])},
		{"file type 8", &GetAttrRes{}, x(0, 8, attrX[4:])},
		{"bool 2", &AccessRes{}, x(0, 2, attrX, 0)},
		{"time_how 3", &MkdirArgs{}, x(whereX, 0, 0, 0, 0, 3, 0)},
		{"stable_how 3", &WriteArgs{}, x(s("h"), uint64(0), 0, 3, 0)},
		{"createmode 3", &CreateArgs{}, x(whereX, 3, nosetX)},
		{"mknod type 8", &MknodArgs{}, x(whereX, 8)},
		{"guard 7", &SetAttrArgs{}, x(s("h"), nosetX, 7)},
		{"committed 3", &WriteRes{}, x(0, 0, 0, 0, 3, verf[:])},
		{"another entry 2", &ReadDirRes{}, x(0, 0, verf[:], 2, 0)},
	} {
		d := xdr.NewDecoder(c.wire)
		err := c.msg.Parse(&d)
		if !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%s: %v", c.name, err)
		}
		if de, ok := errors.AsType[*xdr.DecodeError](err); !ok || de.Field == "" {
			t.Errorf("%s: error without a field: %v", c.name, err)
		}
	}
}

// TestVectors: octets from independent sources.
func TestVectors(t *testing.T) {
	handle := make(FileHandle, 32)
	for i := range handle {
		handle[i] = byte(i)
	}
	h := "00000020000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"READ of 8192", (&ReadArgs{handle, 0, 8192}).Append(nil), h + "000000000000000000002000"},
		{"WRITE of 8190, head", (&WriteArgs{Handle: handle, Count: 8190, Stable: FileSync}).AppendHead(nil), h + "000000000000000000001ffe0000000200001ffe"},
		{"READ reply, head", (&ReadRes{Count: 5000, EOF: true}).AppendHead(nil), "00000000" + "00000000" + "00001388" + "00000001"},
		{"STALE", (&ReadRes{Status: ErrStale}).Append(nil), "00000046" + "00000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestMaxRes: the largest results have the sizes of the table.
func TestMaxRes(t *testing.T) {
	big := make(FileHandle, MaxHandle)
	for p, msg := range map[Proc]Message{
		ProcGetAttr: &GetAttrRes{Attr: attr}, ProcSetAttr: &SetAttrRes{Wcc: wcc},
		ProcLookup: &LookupRes{Handle: big, Attr: some, DirAttr: some}, ProcAccess: &AccessRes{Attr: some},
		ProcReadLink: &ReadLinkRes{Attr: some}, ProcRead: &ReadRes{Attr: some},
		ProcWrite: &WriteRes{Wcc: wcc}, ProcCreate: &NewRes{Handle: SomeHandle(big), Attr: some, DirWcc: wcc},
		ProcRename: &RenameRes{FromWcc: wcc, ToWcc: wcc}, ProcLink: &LinkRes{Attr: some, DirWcc: wcc},
		ProcReadDir: &ReadDirRes{Attr: some}, ProcReadDirPlus: &ReadDirPlusRes{Attr: some},
		ProcFSStat: &FSStatRes{Attr: some}, ProcFSInfo: &FSInfoRes{Attr: some},
		ProcPathConf: &PathConfRes{Attr: some}, ProcCommit: &CommitRes{Wcc: wcc},
	} {
		if got := len(msg.Append(nil)); got != p.MaxRes() {
			t.Errorf("%v: %d octets, MaxRes %d", p, got, p.MaxRes())
		}
	}
}
