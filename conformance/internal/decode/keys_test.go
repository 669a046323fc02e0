package decode

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// TestKeys: what is shown of arguments and results is on one line and bounded, whatever the names are.
func TestKeys(t *testing.T) {
	fh := nfs3.FileHandle("handle")
	where := nfs3.DirOpArgs{Dir: fh, Name: "a\n\"b"}
	for _, tt := range []struct {
		m    xdr.Message
		want string
	}{
		{nil, ""},
		{&nfs3.Void{}, ""},
		{&nfs3.HandleArgs{Handle: fh}, "fh=0x918020d9"},
		{&where, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.AccessArgs{Handle: fh, Access: 3}, "fh=0x918020d9 access=0x3"},
		{&nfs3.ReadArgs{Handle: fh, Offset: 1 << 40, Count: 5}, "fh=0x918020d9 offset=1099511627776 count=5"},
		{&nfs3.WriteArgs{Handle: fh, Offset: 7, Count: 5, Stable: 2}, "fh=0x918020d9 offset=7 count=5 stable=2"},
		{&nfs3.CommitArgs{Handle: fh, Offset: 7, Count: 5}, "fh=0x918020d9 offset=7 count=5"},
		{&nfs3.SetAttrArgs{Handle: fh}, "fh=0x918020d9"},
		{&nfs3.SetAttrArgs{Handle: fh, Attr: nfs3.SetAttr{
			SetMode: true, Mode: 0o640, SetUID: true, UID: 1, SetGID: true, GID: 2, SetSize: true, Size: 3,
			AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 4, Nsec: 5},
		}, Guard: true, Ctime: nfs3.Time{Sec: 6}}, "fh=0x918020d9 mode=0640 uid=1 gid=2 size=3 atime=now mtime=4.000000005 guard=6.000000000"},
		{&nfs3.CreateArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.MkdirArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.MknodArgs{Where: where}, `fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.SymlinkArgs{Where: where, Path: "p"}, `fh=0x918020d9 name="a\n\"b" path="p"`},
		{&nfs3.RenameArgs{From: where, To: nfs3.DirOpArgs{Dir: fh, Name: "c"}}, `fh=0x918020d9 name="a\n\"b" to fh=0x918020d9 name="c"`},
		{&nfs3.LinkArgs{Handle: fh, Link: where}, `fh=0x918020d9 to fh=0x918020d9 name="a\n\"b"`},
		{&nfs3.ReadDirArgs{Dir: fh, Cookie: 1, Count: 2}, "fh=0x918020d9 cookie=1 count=2"},
		{&nfs3.ReadDirPlusArgs{Dir: fh, Cookie: 1, DirCount: 2, MaxCount: 3}, "fh=0x918020d9 cookie=1 dircount=2 maxcount=3"},
		{&mount3.PathArgs{Path: strings.Repeat("x", 65)}, `path="` + strings.Repeat("x", 64) + `"... (65 octets)`},
		{&nfs3.ReadRes{Count: 3, EOF: true}, "count=3 eof=true"},
		{&nfs3.ReadRes{Status: 70}, ""},
		{&nfs3.WriteRes{Count: 3, Committed: 2}, "count=3 committed=2"},
		{&mount3.MountRes{Handle: fh}, "fh=0x918020d9"},
	} {
		if got := keys(tt.m); got != tt.want {
			t.Errorf("%T: %s, want %s", tt.m, got, tt.want)
		}
	}
}
