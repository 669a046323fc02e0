package server_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"golang.org/x/sys/unix"
)

func (p *peer) getACL(h nfs3.FileHandle, mask uint32, want nfs3.Status) *nfs3.GetACLRes {
	p.Helper()
	var res nfs3.GetACLRes
	p.rpc(nfs3.ACLProgram, nfs3.ACLVersion, nfs3.ProcGetACL, &nfs3.GetACLArgs{Handle: h, Mask: mask}, &res)
	if res.Status != want {
		p.Errorf("GETACL: %v, want %v", res.Status, want)
	}
	return &res
}

func (p *peer) setACL(a *nfs3.SetACLArgs, want nfs3.Status) *nfs3.SetACLRes {
	p.Helper()
	var res nfs3.SetACLRes
	p.rpc(nfs3.ACLProgram, nfs3.ACLVersion, nfs3.ProcSetACL, a, &res)
	if res.Status != want {
		p.Errorf("SETACL: %v, want %v", res.Status, want)
	}
	return &res
}

// TestACL: what clients set is what the kernel obeys, and what it obeys they see; and it decides who may change it.
func TestACL(t *testing.T) {
	at := t.TempDir()
	if err := unix.Setxattr(at, "system.posix_acl_access", unhexACL("01000600ffffffff"+"0400"+"0600ffffffff"+"2000"+"0600ffffffff"), 0); err == unix.EOPNOTSUPP {
		t.Skipf("the file system of %s has no ACLs", at)
	}
	fsys := must(dir.New(at, &dir.Config{Async: true}))(t)
	t.Cleanup(func() { _ = fsys.Close() })
	noErr(t, os.Chmod(at, 0o777))
	p := newPeer(t, newServer(t, fsys), sys(0, 0))
	h := p.create(p.root, "f", 0o640)

	const all = nfs3.ACLAccess | nfs3.ACLAccessCount | nfs3.ACLDefault | nfs3.ACLDefaultCount
	if got := p.getACL(h, all, nfs3.OK); !reflect.DeepEqual(got.Access, nfs3.ACL{aclEntry(nfs3.ACEUserObj, 0, 6), aclEntry(nfs3.ACEGroupObj, 0, 4), aclEntry(nfs3.ACEOther, 0, 0)}) || got.Default != nil || got.Mask != all {
		t.Errorf("of the mode: %+v", got)
	}
	acl := nfs3.ACL{aclEntry(nfs3.ACEUserObj, 0, 6), aclEntry(nfs3.ACEUser, 1234, 6), aclEntry(nfs3.ACEGroupObj, 0, 4), aclEntry(nfs3.ACEMask, 0, 6), aclEntry(nfs3.ACEOther, 0, 0)}
	res := p.setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLAccess, Access: acl}, nfs3.OK)
	if res.Attr.Attr.Mode != 0o660 { // the group of the mode is the mask
		t.Errorf("mode %o", res.Attr.Attr.Mode)
	}
	b := make([]byte, 100)
	n, err := unix.Getxattr(filepath.Join(at, "f"), "system.posix_acl_access", b)
	if want := unhexACL("01000600ffffffff" + "02000600d2040000" + "04000400ffffffff" + "10000600ffffffff" + "20000000ffffffff"); err != nil || !reflect.DeepEqual(b[:n], want) {
		t.Errorf("%x, %v\nwant %x", b[:n], err, want)
	}
	if got := p.getACL(h, nfs3.ACLAccess, nfs3.OK); !reflect.DeepEqual(got.Access, acl) {
		t.Errorf("%+v", got)
	}
	if got := p.getACL(h, nfs3.ACLAccessCount, nfs3.OK); got.Access != nil {
		t.Errorf("the count alone: %+v", got)
	}
	p.setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLAccess}, nfs3.OK)
	if _, err := unix.Getxattr(filepath.Join(at, "f"), "system.posix_acl_access", b); err != unix.ENODATA {
		t.Errorf("taken away: %v", err)
	}

	d := p.mkdir(p.root, "d", 0o755)
	inherited := nfs3.ACL{aclEntry(nfs3.ACEUserObj, 0, 7), aclEntry(nfs3.ACEGroupObj, 0, 5), aclEntry(nfs3.ACEGroup, 77, 7), aclEntry(nfs3.ACEMask, 0, 7), aclEntry(nfs3.ACEOther, 0, 0)}
	p.setACL(&nfs3.SetACLArgs{Handle: d, Mask: nfs3.ACLDefault, Default: inherited}, nfs3.OK)
	if got := p.getACL(d, all, nfs3.OK); !reflect.DeepEqual(got.Default, inherited) || len(got.Access) != 3 {
		t.Errorf("%+v", got)
	}
	if got := p.getACL(p.create(d, "g", 0o666), nfs3.ACLAccess, nfs3.OK); len(got.Access) != 5 {
		t.Errorf("inherited: %+v", got)
	}

	p.setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLDefault, Default: inherited}, nfs3.ErrInval)
	p.setACL(&nfs3.SetACLArgs{Handle: h, Mask: 16}, nfs3.ErrInval)
	p.getACL(h, 16, nfs3.ErrInval)
	p.setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLAccess, Access: acl[1:]}, nfs3.ErrInval) // the kernel says what is one
	p.getACL(h[:5], nfs3.ACLAccess, nfs3.ErrBadHandle)
	if fsys.Info().Owners { // the kernel decides, since this process is root
		p.as(sys(1234, 1234)).setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLAccess, Access: acl}, nfs3.ErrPerm)
		p.as(sys(1234, 1234)).getACL(h, nfs3.ACLAccess, nfs3.OK)
	}
	ro := newPeer(t, newServer(t, fsys, func(c *server.Config) { c.Exports[0].ReadOnly = true }), sys(0, 0))
	ro.setACL(&nfs3.SetACLArgs{Handle: h, Mask: nfs3.ACLAccess, Access: acl}, nfs3.ErrROFS)
	none := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	none.getACL(none.root, nfs3.ACLAccess, nfs3.ErrNotSupp)
}

func aclEntry(tag, id, perm uint32) nfs3.ACE { return nfs3.ACE{Tag: tag, ID: id, Perm: perm} }

func unhexACL(entries string) []byte {
	b, err := hex.DecodeString("02000000" + entries)
	if err != nil {
		panic(err)
	}
	return b
}
