package server_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
	"golang.org/x/sys/unix"
)

// The proof that the kernel decides: what a call does for a caller is what the same system call does for a local
// process with his ids. There are two equal trees on each file system; calls work on one, processes on the other.

// localEnv makes the test binary a process that does what it is asked on its standard input.
const localEnv = "SERVER_TEST_LOCAL"

func init() {
	if os.Getenv(localEnv) != "" {
		local()
	}
}

// localCall is one system call: on the file in a directory that everybody may search, or on names in d.
type localCall struct {
	Op, D, F, E string
	GID         int // of "chgrp own"
}

// outcome is what came of it.
type outcome struct {
	Errno int    `json:",omitempty"`
	Text  string `json:",omitempty"` // what was found
}

// callIn returns the call in a scene that was built below top.
func callIn(op, top string, id *caller.Identity) *localCall {
	return &localCall{Op: op, D: top + "/d", F: top + "/f", E: top + "/e", GID: int(id.GID)}
}

func local() {
	syscall.Umask(0)
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		var c localCall
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			os.Exit(2)
		}
		text, err := localOps[c.Op](&c)
		o := outcome{Text: text}
		if err != nil {
			e, ok := errors.AsType[syscall.Errno](err)
			if !ok {
				os.Exit(3)
			}
			o = outcome{Errno: int(e)}
		}
		if out.Encode(o) != nil {
			break
		}
	}
	os.Exit(0)
}

// rights asks for r, w and x.
func rights(name string) (string, error) {
	var s string
	for _, c := range []struct {
		mode uint32
		text string
	}{{unix.R_OK, "r"}, {unix.W_OK, "w"}, {unix.X_OK, "x"}} {
		switch err := unix.Faccessat(unix.AT_FDCWD, name, c.mode, 0); err {
		case nil:
			s += c.text
		case unix.EACCES, unix.EPERM, unix.EROFS:
			s += "-"
		default:
			return "", err
		}
	}
	return s, nil
}

func closing(fd int, err error) (string, error) {
	if err == nil {
		unix.Close(fd)
	}
	return "", err
}

func setLocal(name string, ts ...unix.Timespec) (string, error) {
	return "", unix.UtimesNanoAt(unix.AT_FDCWD, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

var localOps = map[string]func(c *localCall) (string, error){
	"access file": func(c *localCall) (string, error) { return rights(c.F) },
	"access dir":  func(c *localCall) (string, error) { return rights(c.D) },
	"lookup": func(c *localCall) (string, error) {
		var st unix.Stat_t
		return "", unix.Lstat(c.D+"/f", &st)
	},
	"read": func(c *localCall) (string, error) { return closing(unix.Open(c.F, unix.O_RDONLY, 0)) },
	"write": func(c *localCall) (string, error) {
		fd, err := unix.Open(c.F, unix.O_WRONLY, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		_, err = unix.Pwrite(fd, []byte("xyz"), 1)
		return "", err
	},
	"truncate":   func(c *localCall) (string, error) { return "", unix.Truncate(c.F, 1) },
	"chmod":      func(c *localCall) (string, error) { return "", unix.Chmod(c.F, 0o640) },
	"chmod g+s":  func(c *localCall) (string, error) { return "", unix.Chmod(c.F, 0o2755) },
	"chgrp own":  func(c *localCall) (string, error) { return "", unix.Chown(c.F, -1, c.GID) },
	"chgrp 1001": func(c *localCall) (string, error) { return "", unix.Chown(c.F, -1, 1001) },
	"chown":      func(c *localCall) (string, error) { return "", unix.Chown(c.F, 3000, -1) },
	"touch": func(c *localCall) (string, error) {
		now := unix.Timespec{Nsec: unix.UTIME_NOW}
		return setLocal(c.F, now, now)
	},
	"times": func(c *localCall) (string, error) { t := unix.Timespec{Sec: 99}; return setLocal(c.F, t, t) },
	"create": func(c *localCall) (string, error) {
		return closing(unix.Open(c.D+"/n", unix.O_CREAT|unix.O_WRONLY, 0o666))
	},
	"create 2755": func(c *localCall) (string, error) {
		return closing(unix.Open(c.D+"/n", unix.O_CREAT|unix.O_WRONLY, 0o2755))
	},
	"create exclusively": func(c *localCall) (string, error) {
		return closing(unix.Open(c.D+"/n", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o666))
	},
	"create over": func(c *localCall) (string, error) {
		return closing(unix.Open(c.D+"/f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o666))
	},
	"mkdir":   func(c *localCall) (string, error) { return "", unix.Mkdir(c.D+"/n", 0o777) },
	"symlink": func(c *localCall) (string, error) { return "", unix.Symlink("to", c.D+"/n") },
	"fifo":    func(c *localCall) (string, error) { return "", unix.Mknod(c.D+"/n", unix.S_IFIFO|0o666, 0) },
	"device": func(c *localCall) (string, error) {
		return "", unix.Mknod(c.D+"/n", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	},
	"remove":      func(c *localCall) (string, error) { return "", unix.Unlink(c.D + "/f") },
	"rmdir":       func(c *localCall) (string, error) { return "", unix.Rmdir(c.D + "/s") },
	"rename":      func(c *localCall) (string, error) { return "", unix.Rename(c.D+"/f", c.D+"/n") },
	"rename over": func(c *localCall) (string, error) { return "", unix.Rename(c.D+"/g", c.D+"/f") },
	"move file":   func(c *localCall) (string, error) { return "", unix.Rename(c.D+"/f", c.E+"/n") },
	"move dir":    func(c *localCall) (string, error) { return "", unix.Rename(c.D+"/s", c.E+"/n") },
	"link":        func(c *localCall) (string, error) { return "", unix.Link(c.F, c.D+"/n") },
	"list": func(c *localCall) (string, error) {
		f, err := os.Open(c.D)
		if err != nil {
			return "", bareErrno(err)
		}
		defer f.Close()
		names, err := f.Readdirnames(-1) // ReadDir looks at names whose kind it does not know
		return fmt.Sprint(len(names)), bareErrno(err)
	},
	"fill": fill,
	"list plus": func(c *localCall) (string, error) {
		f, err := os.Open(c.D)
		if err != nil {
			return "", bareErrno(err)
		}
		defer f.Close()
		names, err := f.Readdirnames(-1)
		found := 0
		for _, name := range names {
			var st unix.Stat_t
			if unix.Lstat(c.D+"/"+name, &st) == nil {
				found++
			}
		}
		return fmt.Sprint(len(names), found), bareErrno(err)
	},
}

func bareErrno(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}

// helper is a process of a user.
type helper struct {
	in  io.WriteCloser
	out *json.Decoder
}

func newHelper(t *testing.T, id *caller.Identity) *helper {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{localEnv + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}}
	in := must(cmd.StdinPipe())(t)
	out := must(cmd.StdoutPipe())(t)
	noErr(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &helper{in, json.NewDecoder(out)}
}

func (h *helper) do(t *testing.T, c *localCall) (o outcome) {
	t.Helper()
	noErr(t, json.NewEncoder(h.in).Encode(c))
	noErr(t, h.out.Decode(&o))
	return o
}

// remote is the same by calls.
type remote struct {
	*peer
	d, f, e nfs3.FileHandle
}

func (r *remote) result(proc nfs3.Proc, args xdr.Message) (nfs3.Status, xdr.Message) {
	r.Helper()
	res := proc.NewRes()
	r.rpc(nfs3.Program, nfs3.Version, uint32(proc), args, res)
	return *res.(nfs3.Result).Stat(), res
}

func (r *remote) access(h nfs3.FileHandle) (nfs3.Status, string) {
	r.Helper()
	s, res := r.result(nfs3.ProcAccess, &nfs3.AccessArgs{Handle: h, Access: nfs3.AccessAll})
	got, text := res.(*nfs3.AccessRes).Access, []byte("---")
	if got&nfs3.AccessRead != 0 {
		text[0] = 'r'
	}
	if got&nfs3.AccessModify != 0 {
		text[1] = 'w'
	}
	if got&(nfs3.AccessExecute|nfs3.AccessLookup) != 0 {
		text[2] = 'x'
	}
	return s, string(text)
}

func (r *remote) status(proc nfs3.Proc, args xdr.Message) (nfs3.Status, string) {
	r.Helper()
	s, _ := r.result(proc, args)
	return s, ""
}

func (r *remote) set(a nfs3.SetAttr) (nfs3.Status, string) {
	r.Helper()
	return r.status(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: r.f, Attr: a})
}

func (r *remote) create(name string, how nfs3.CreateMode, m uint32) (nfs3.Status, string) {
	r.Helper()
	return r.status(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(r.d, name), Mode: how, Attr: mode(m)})
}

func (r *remote) rename(from string, to nfs3.FileHandle, name string) (nfs3.Status, string) {
	r.Helper()
	return r.status(nfs3.ProcRename, &nfs3.RenameArgs{From: at(r.d, from), To: at(to, name)})
}

// remoteOp is a call that corresponds to a system call.
type remoteOp struct {
	name string
	proc nfs3.Proc
	do   func(r *remote) (nfs3.Status, string)
}

var remoteOps = []remoteOp{
	{"access file", nfs3.ProcAccess, func(r *remote) (nfs3.Status, string) { return r.access(r.f) }},
	{"access dir", nfs3.ProcAccess, func(r *remote) (nfs3.Status, string) { return r.access(r.d) }},
	{"lookup", nfs3.ProcLookup, func(r *remote) (nfs3.Status, string) { a := at(r.d, "f"); return r.status(nfs3.ProcLookup, &a) }},
	{"read", nfs3.ProcRead, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcRead, &nfs3.ReadArgs{Handle: r.f, Count: 9})
	}},
	{"write", nfs3.ProcWrite, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcWrite, &nfs3.WriteArgs{Handle: r.f, Offset: 1, Count: 3, Data: []byte("xyz")})
	}},
	{"truncate", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) { return r.set(nfs3.SetAttr{SetSize: true, Size: 1}) }},
	{"chmod", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) { return r.set(mode(0o640)) }},
	{"chmod g+s", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) { return r.set(mode(0o2755)) }},
	{"chgrp own", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) {
		c, _ := xdr.ParseSysCred(r.cred.Body)
		own := r.srv.FirstSquash(server.Cred{UID: c.UID, GID: c.GID, GIDs: c.GIDs})
		return r.set(nfs3.SetAttr{SetGID: true, GID: own.GID})
	}},
	{"chgrp 1001", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) { return r.set(nfs3.SetAttr{SetGID: true, GID: 1001}) }},
	{"chown", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) { return r.set(nfs3.SetAttr{SetUID: true, UID: 3000}) }},
	{"touch", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) {
		return r.set(nfs3.SetAttr{AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ServerTime})
	}},
	{"times", nfs3.ProcSetAttr, func(r *remote) (nfs3.Status, string) {
		x := nfs3.Time{Sec: 99}
		return r.set(nfs3.SetAttr{AtimeHow: nfs3.ClientTime, MtimeHow: nfs3.ClientTime, Atime: x, Mtime: x})
	}},
	{"create", nfs3.ProcCreate, func(r *remote) (nfs3.Status, string) { return r.create("n", nfs3.Unchecked, 0o666) }},
	{"create 2755", nfs3.ProcCreate, func(r *remote) (nfs3.Status, string) { return r.create("n", nfs3.Unchecked, 0o2755) }},
	{"create exclusively", nfs3.ProcCreate, func(r *remote) (nfs3.Status, string) { return r.create("n", nfs3.Guarded, 0o666) }},
	{"create over", nfs3.ProcCreate, func(r *remote) (nfs3.Status, string) { return r.create("f", nfs3.Guarded, 0o666) }},
	{"mkdir", nfs3.ProcMkdir, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(r.d, "n"), Attr: mode(0o777)})
	}},
	{"symlink", nfs3.ProcSymlink, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(r.d, "n"), Path: "to"})
	}},
	{"fifo", nfs3.ProcMknod, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at(r.d, "n"), Type: nfs3.TypeFIFO, Attr: mode(0o666)})
	}},
	{"device", nfs3.ProcMknod, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at(r.d, "n"), Type: nfs3.TypeChr, Attr: mode(0o666), Rdev: nfs3.Device{Major: 1, Minor: 3}})
	}},
	{"remove", nfs3.ProcRemove, func(r *remote) (nfs3.Status, string) { a := at(r.d, "f"); return r.status(nfs3.ProcRemove, &a) }},
	{"rmdir", nfs3.ProcRmdir, func(r *remote) (nfs3.Status, string) { a := at(r.d, "s"); return r.status(nfs3.ProcRmdir, &a) }},
	{"rename", nfs3.ProcRename, func(r *remote) (nfs3.Status, string) { return r.rename("f", r.d, "n") }},
	{"rename over", nfs3.ProcRename, func(r *remote) (nfs3.Status, string) { return r.rename("g", r.d, "f") }},
	{"move file", nfs3.ProcRename, func(r *remote) (nfs3.Status, string) { return r.rename("f", r.e, "n") }},
	{"move dir", nfs3.ProcRename, func(r *remote) (nfs3.Status, string) { return r.rename("s", r.e, "n") }},
	{"link", nfs3.ProcLink, func(r *remote) (nfs3.Status, string) {
		return r.status(nfs3.ProcLink, &nfs3.LinkArgs{Handle: r.f, Link: at(r.d, "n")})
	}},
	{"list", nfs3.ProcReadDir, func(r *remote) (nfs3.Status, string) {
		s, res := r.result(nfs3.ProcReadDir, &nfs3.ReadDirArgs{Dir: r.d, Count: 8192})
		if s != nfs3.OK {
			return s, ""
		}
		return s, fmt.Sprint(len(res.(*nfs3.ReadDirRes).Entries) - 2) // less "." and ".."
	}},
	{"list plus", nfs3.ProcReadDirPlus, func(r *remote) (nfs3.Status, string) {
		s, res := r.result(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: r.d, DirCount: 8192, MaxCount: 8192})
		if s != nfs3.OK {
			return s, ""
		}
		names, found := 0, 0
		for _, e := range res.(*nfs3.ReadDirPlusRes).Entries {
			if e.Name == "." || e.Name == ".." {
				continue
			}
			names++
			if e.Handle.Present != e.Attr.Present {
				r.Error("a handle without attributes, or the other way round")
			}
			if e.Handle.Present {
				found++
			}
		}
		return s, fmt.Sprint(names, found)
	}},
}

// scene is what a call finds: the modes of the directory d and of the file f in it, who owns them, and ACLs.
type scene struct {
	name         string
	d, f         uint32
	owner, group int // of both; 1000:1000 unless dOwner says otherwise
	dOwner       int
	acl, dacl    []ace // of f and of d
	def          []ace // default ACL of d
}

// ace is an entry of an ACL.
type ace struct {
	tag  uint16
	perm uint16
	id   uint32
}

// Tags of entries (linux/posix_acl.h).
const (
	aclUserObj  = 1
	aclUser     = 2
	aclGroupObj = 4
	aclGroup    = 8
	aclMask     = 16
	aclOther    = 32
)

func entry(tag uint16, perm uint16, id ...uint32) ace {
	if len(id) == 0 {
		return ace{tag, perm, ^uint32(0)}
	}
	return ace{tag, perm, id[0]}
}

func setACL(name, kind string, list []ace) error {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range list {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return unix.Setxattr(name, "system.posix_acl_"+kind, b, 0)
}

var scenes = []scene{
	{name: "open", d: 0o777, f: 0o666},
	{name: "usual", d: 0o755, f: 0o644},
	{name: "private", d: 0o700, f: 0o600},
	{name: "group", d: 0o770, f: 0o660},
	{name: "group reads", d: 0o750, f: 0o640},
	{name: "others more than the group", d: 0o707, f: 0o606},
	{name: "owner least", d: 0o077, f: 0o066},
	{name: "read only", d: 0o555, f: 0o444},
	{name: "nothing", d: 0, f: 0},
	{name: "x only", d: 0o711, f: 0o711},
	{name: "r only", d: 0o744, f: 0o744},
	{name: "wx", d: 0o733, f: 0o722},
	{name: "set-id", d: 0o777, f: 0o6777},
	{name: "set-id of another group", d: 0o777, f: 0o2777, group: 2000},
	{name: "sticky", d: 0o1777, f: 0o666, dOwner: 4000},
	{name: "sticky of the caller", d: 0o1777, f: 0o666, owner: 4000, dOwner: 1000},
	{name: "set-gid directory", d: 0o2777, f: 0o666, group: 5000},
	{name: "set-gid directory of the group", d: 0o2770, f: 0o660},
	{
		name: "ACL allows", d: 0o770, f: 0o660,
		acl:  []ace{entry(aclUserObj, 6), entry(aclUser, 6, 3000), entry(aclGroupObj, 0), entry(aclMask, 6), entry(aclOther, 0)},
		dacl: []ace{entry(aclUserObj, 7), entry(aclUser, 7, 3000), entry(aclGroupObj, 0), entry(aclMask, 7), entry(aclOther, 0)},
	},
	{
		name: "ACL denies", d: 0o777, f: 0o666,
		acl:  []ace{entry(aclUserObj, 6), entry(aclUser, 0, 3000), entry(aclGroupObj, 6), entry(aclGroup, 0, 2001), entry(aclMask, 6), entry(aclOther, 6)},
		dacl: []ace{entry(aclUserObj, 7), entry(aclUser, 0, 3000), entry(aclGroupObj, 7), entry(aclGroup, 0, 2001), entry(aclMask, 7), entry(aclOther, 7)},
	},
	{
		name: "mask", d: 0o755, f: 0o644,
		acl:  []ace{entry(aclUserObj, 6), entry(aclUser, 6, 3000), entry(aclGroupObj, 6), entry(aclMask, 4), entry(aclOther, 0)},
		dacl: []ace{entry(aclUserObj, 7), entry(aclUser, 7, 3000), entry(aclGroupObj, 7), entry(aclMask, 5), entry(aclOther, 0)},
	},
	{
		name: "default ACL", d: 0o777, f: 0o666,
		def: []ace{entry(aclUserObj, 7), entry(aclUser, 6, 3000), entry(aclGroupObj, 0), entry(aclMask, 6), entry(aclOther, 0)},
	},
	{name: "default ACL that closes", d: 0o777, f: 0o666, def: []ace{entry(aclUserObj, 6), entry(aclGroupObj, 0), entry(aclOther, 0)}},
}

// callers are who calls, and who that is for the kernel.
var callers = []struct {
	name string
	cred server.Cred
	is   caller.Identity
}{
	{"owner", server.Cred{UID: 1000, GID: 1000}, caller.Identity{UID: 1000, GID: 1000}},
	{"owner in another group", server.Cred{UID: 1000, GID: 1001}, caller.Identity{UID: 1000, GID: 1001}},
	{"group by gids", server.Cred{UID: 2000, GID: 2000, GIDs: []uint32{7, 1000}}, caller.Identity{UID: 2000, GID: 2000, Groups: []uint32{7, 1000}}},
	{"group", server.Cred{UID: 2001, GID: 1000, GIDs: []uint32{2001}}, caller.Identity{UID: 2001, GID: 1000, Groups: []uint32{2001}}},
	{"other", server.Cred{UID: 3000, GID: 3000}, caller.Identity{UID: 3000, GID: 3000}},
	{"squashed root", server.Cred{GIDs: []uint32{0, 5}}, caller.Identity{UID: server.Nobody, GID: server.Nobody, Groups: []uint32{server.Nobody, 5}}},
	{"uid -1", server.Cred{UID: caller.None, GID: 1000}, caller.Identity{UID: server.Nobody, GID: 1000}},
	{"gid -1", server.Cred{UID: 4001, GID: caller.None, GIDs: []uint32{caller.None}}, caller.Identity{UID: 4001, GID: server.Nobody, Groups: []uint32{server.Nobody}}},
}

// build makes a scene below dir: d with f, g and s, e beside it, and another name of f that everybody can reach.
func (s *scene) build(t *testing.T, top string) {
	t.Helper()
	owner, group, dOwner := 1000, 1000, 1000
	if s.owner != 0 {
		owner = s.owner
	}
	if s.group != 0 {
		group = s.group
	}
	if s.dOwner != 0 {
		dOwner = s.dOwner
	}
	mk := func(name string, mode uint32, uid int, isDir bool) {
		t.Helper()
		p := filepath.Join(top, name)
		if isDir {
			noErr(t, os.Mkdir(p, 0o700))
		} else {
			noErr(t, os.WriteFile(p, []byte("content"), 0o600))
		}
		noErr(t, os.Chown(p, uid, group))
		noErr(t, unix.Chmod(p, mode))
	}
	noErr(t, os.Mkdir(top, 0o755))
	mk("e", 0o777, dOwner, true)
	mk("d", 0o700, dOwner, true)
	mk("d/f", s.f, owner, false)
	mk("d/g", 0o644, owner, false)
	mk("d/s", 0o755, owner, true)
	noErr(t, os.Link(filepath.Join(top, "d/f"), filepath.Join(top, "f")))
	noErr(t, unix.Chmod(filepath.Join(top, "d"), s.d))
	for _, x := range []struct {
		name, kind string
		list       []ace
	}{{"f", "access", s.acl}, {"d", "access", s.dacl}, {"d", "default", s.def}} {
		if len(x.list) > 0 {
			noErr(t, setACL(filepath.Join(top, x.name), x.kind, x.list))
		}
	}
}

// picture describes all that is below top: kinds, modes with ACLs, owners and sizes.
func picture(t *testing.T, top string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(top, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		rel, _ := filepath.Rel(top, p)
		fmt.Fprintf(&b, "%s %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		if !fi.IsDir() {
			fmt.Fprintf(&b, " %d links, %d octets", st.Nlink, st.Size)
		}
		for _, kind := range []string{"access", "default"} {
			buf := make([]byte, 256)
			if n, err := unix.Lgetxattr(p, "system.posix_acl_"+kind, buf); err == nil {
				fmt.Fprintf(&b, " %s %x", kind, buf[:n])
			}
		}
		if st.Mtim.Sec < 1e9 {
			fmt.Fprintf(&b, " mtime %d", st.Mtim.Sec)
		}
		b.WriteByte('\n')
		return nil
	})
	noErr(t, err)
	return b.String()
}

// errnoStatus are the statuses of the errors that appear in the table.
var errnoStatus = map[syscall.Errno]nfs3.Status{
	0: nfs3.OK, unix.EACCES: nfs3.ErrAcces, unix.EPERM: nfs3.ErrPerm, unix.EROFS: nfs3.ErrROFS, unix.EEXIST: nfs3.ErrExist,
	unix.ENOENT: nfs3.ErrNoEnt, unix.EISDIR: nfs3.ErrIsDir, unix.ENOTDIR: nfs3.ErrNotDir,
}

// named is a difference that docs/security.md names: the owner reads and writes his file whatever its mode, and
// who may run a file may read it.
func named(op string, s *scene, id *caller.Identity, rights string) bool {
	owner := uint32(1000)
	if s.owner != 0 {
		owner = uint32(s.owner)
	}
	switch op {
	case "write", "truncate":
		return id.UID == owner
	case "read":
		return id.UID == owner || strings.HasSuffix(rights, "x")
	}
	return false
}

var authorityOn = flag.String("authority.on", "tmpfs", "file systems for TestAuthority")

// TestAuthority is the table: procedures, callers and scenes, on each file system that can be mounted here.
func TestAuthority(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("processes of other users, and mounts: for root")
	}
	for kind := range strings.SplitSeq(*authorityOn, ",") {
		t.Run(kind, func(t *testing.T) { authority(t, backendtest.Mount(t, kind, 400<<20).At) })
	}
}

func authority(t *testing.T, mnt string) {
	fsys := must(dir.New(mnt, &dir.Config{Async: true}))(t)
	defer fsys.Close()
	t.Log(fsys.Authority())
	srv := newServer(t, fsys, func(c *server.Config) { c.Exports[0].Squash = server.SquashRoot })
	root := newPeer(t, newServer(t, fsys), sys(0, 0))
	n, differ := 0, 0
	for _, who := range callers {
		h := newHelper(t, &who.is)
		p := newPeer(t, srv, sys(who.cred.UID, who.cred.GID, who.cred.GIDs...))
		for i := range scenes {
			s := &scenes[i]
			for _, op := range remoteOps {
				n++
				a, b := fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)
				s.build(t, filepath.Join(mnt, a))
				s.build(t, filepath.Join(mnt, b))
				top := root.lookup(root.root, a, nfs3.OK).Handle
				r := &remote{
					peer: p, d: root.lookup(top, "d", nfs3.OK).Handle, e: root.lookup(top, "e", nfs3.OK).Handle,
					f: root.lookup(top, "f", nfs3.OK).Handle,
				}
				base := filepath.Join(mnt, b)
				call := callIn(op.name, base, &who.is)
				rights := h.do(t, &localCall{Op: "access file", F: call.F}).Text
				want := h.do(t, call)
				got, text := op.do(r)
				expect := server.Fit(op.proc, errnoStatus[syscall.Errno(want.Errno)])
				same := got == expect && text == want.Text && picture(t, filepath.Join(mnt, a)) == picture(t, base)
				if !same && got == nfs3.OK && syscall.Errno(want.Errno) == unix.EACCES && named(op.name, s, &who.is, rights) {
					same = true
				}
				if !same {
					differ++
					t.Errorf("%s, %s, %s: a call gets %v %q, a process %v %q\n%s%s", who.name, s.name, op.name, got, text, syscall.Errno(want.Errno), want.Text,
						picture(t, filepath.Join(mnt, a)), picture(t, base))
				}
				noErr(t, os.RemoveAll(filepath.Join(mnt, a)))
				noErr(t, os.RemoveAll(base))
				if differ > 20 {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d comparisons, %d differences", n, differ)
}

// readOnly mounts dir a second time, read-only, where everybody can reach it.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	ro := filepath.Join(t.TempDir(), "ro")
	noErr(t, os.Mkdir(ro, 0o755))
	noErr(t, os.Chmod(filepath.Dir(ro), 0o755))
	noErr(t, os.Chmod(filepath.Dir(filepath.Dir(ro)), 0o755))
	noErr(t, unix.Mount(dir, ro, "", unix.MS_BIND, ""))
	t.Cleanup(func() { noErr(t, unix.Unmount(ro, unix.MNT_DETACH)) })
	noErr(t, unix.Mount("", ro, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return ro
}

// TestAuthorityReadOnly: a read-only export is like a mount that is read-only.
func TestAuthorityReadOnly(t *testing.T) {
	mnt := backendtest.Mount(t, "tmpfs", 0).At
	fsys := must(dir.New(mnt, &dir.Config{Async: true}))(t)
	defer fsys.Close()
	root := newPeer(t, newServer(t, fsys), sys(0, 0))
	srv := newServer(t, fsys, func(c *server.Config) { c.Exports[0].ReadOnly = true })
	scenes[0].build(t, filepath.Join(mnt, "a"))
	ro := readOnly(t, mnt)
	top := root.lookup(root.root, "a", nfs3.OK).Handle
	for _, who := range callers {
		h := newHelper(t, &who.is)
		r := &remote{
			peer: newPeer(t, srv, sys(who.cred.UID, who.cred.GID, who.cred.GIDs...)), d: root.lookup(top, "d", nfs3.OK).Handle,
			e: root.lookup(top, "e", nfs3.OK).Handle, f: root.lookup(top, "f", nfs3.OK).Handle,
		}
		before := picture(t, mnt)
		for _, op := range remoteOps {
			want := h.do(t, callIn(op.name, ro+"/a", &who.is))
			got, text := op.do(r)
			expect := server.Fit(op.proc, errnoStatus[syscall.Errno(want.Errno)])
			// A read-only export refuses before the kernel looks at anything else.
			if named := got == server.Fit(op.proc, nfs3.ErrROFS) && want.Errno != 0; (got != expect && !named) || text != want.Text {
				t.Errorf("%s, %s: a call gets %v %q, a process %v %q", who.name, op.name, got, text, syscall.Errno(want.Errno), want.Text)
			}
		}
		if picture(t, mnt) != before {
			t.Errorf("%s has changed something", who.name)
		}
	}
}
