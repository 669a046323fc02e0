package decode

import (
	"fmt"
	"hash/crc32"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// maxName bounds what is shown of a name, in octets.
const maxName = 64

// keys returns what matters most in a message of NFSv3 or MOUNT: handles as a digest (CRC-32, as in
// Wireshark), names, offsets, counts. It returns "" if there is nothing of the kind.
func keys(m nfs3.Message) string {
	switch a := m.(type) {
	case *nfs3.HandleArgs:
		return digest(a.Handle)
	case *nfs3.DirOpArgs:
		return dirOp(a)
	case *nfs3.AccessArgs:
		return fmt.Sprintf("%s access=%#x", digest(a.Handle), uint32(a.Access))
	case *nfs3.ReadArgs:
		return fmt.Sprintf("%s offset=%d count=%d", digest(a.Handle), a.Offset, a.Count)
	case *nfs3.WriteArgs:
		return fmt.Sprintf("%s offset=%d count=%d stable=%d", digest(a.Handle), a.Offset, a.Count, uint32(a.Stable))
	case *nfs3.CommitArgs:
		return fmt.Sprintf("%s offset=%d count=%d", digest(a.Handle), a.Offset, a.Count)
	case *nfs3.SetAttrArgs:
		guard := ""
		if a.Guard {
			guard = fmt.Sprintf(" guard=%d.%09d", a.Ctime.Sec, a.Ctime.Nsec)
		}
		return digest(a.Handle) + settings(&a.Attr) + guard
	case *nfs3.CreateArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.MkdirArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.MknodArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.SymlinkArgs:
		return dirOp(&a.Where) + " path=" + quote(a.Path) + settings(&a.Attr)
	case *nfs3.RenameArgs:
		return dirOp(&a.From) + " to " + dirOp(&a.To)
	case *nfs3.LinkArgs:
		return digest(a.Handle) + " to " + dirOp(&a.Link)
	case *nfs3.ReadDirArgs:
		return fmt.Sprintf("%s cookie=%d count=%d", digest(a.Dir), a.Cookie, a.Count)
	case *nfs3.ReadDirPlusArgs:
		return fmt.Sprintf("%s cookie=%d dircount=%d maxcount=%d", digest(a.Dir), a.Cookie, a.DirCount, a.MaxCount)
	case *mount3.PathArgs:
		return "path=" + quote(a.Path)
	}
	return resultKeys(m)
}

// resultKeys does the same for results.
func resultKeys(m nfs3.Message) string {
	switch r := m.(type) {
	case *nfs3.ReadRes:
		if r.Status == nfs3.OK {
			return fmt.Sprintf("count=%d eof=%t", r.Count, r.EOF)
		}
	case *nfs3.WriteRes:
		if r.Status == nfs3.OK {
			return fmt.Sprintf("count=%d committed=%d", r.Count, uint32(r.Committed))
		}
	case *mount3.MountRes:
		if r.Status == mount3.OK {
			return digest(r.Handle)
		}
	}
	return ""
}

// settings returns what a call sets, each with a space in front.
func settings(a *nfs3.SetAttr) (s string) {
	for _, f := range []struct {
		set  bool
		text string
	}{
		{a.SetMode, fmt.Sprintf("mode=%#o", a.Mode)},
		{a.SetUID, fmt.Sprintf("uid=%d", a.UID)},
		{a.SetGID, fmt.Sprintf("gid=%d", a.GID)},
		{a.SetSize, fmt.Sprintf("size=%d", a.Size)},
		{a.AtimeHow == nfs3.ServerTime, "atime=now"},
		{a.AtimeHow == nfs3.ClientTime, fmt.Sprintf("atime=%d.%09d", a.Atime.Sec, a.Atime.Nsec)},
		{a.MtimeHow == nfs3.ServerTime, "mtime=now"},
		{a.MtimeHow == nfs3.ClientTime, fmt.Sprintf("mtime=%d.%09d", a.Mtime.Sec, a.Mtime.Nsec)},
	} {
		if f.set {
			s += " " + f.text
		}
	}
	return s
}

func digest(h nfs3.FileHandle) string { return fmt.Sprintf("fh=%#08x", crc32.ChecksumIEEE(h)) }

func dirOp(a *nfs3.DirOpArgs) string { return digest(a.Dir) + " name=" + quote(a.Name) }

// quote returns a name on one line, whatever is in it.
func quote(s string) string {
	if len(s) > maxName {
		return fmt.Sprintf("%q... (%d octets)", s[:maxName], len(s))
	}
	return fmt.Sprintf("%q", s)
}
