package dir

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

var _ backend.ACLs = (*file)(nil)

// aclVersion is that of POSIX ACLs in extended attributes (posix_acl_xattr.h): a header with it, and entries of tag,
// permissions and id.
const aclVersion = 2

func aclName(inherited bool) string {
	if inherited {
		return "system.posix_acl_default"
	}
	return "system.posix_acl_access"
}

// ACL reads what the kernel obeys. As with the mode, nobody needs a right to see it.
func (n *file) ACL(inherited bool) (nfs3.ACL, error) {
	g, err := n.hold()
	if err != nil {
		return nil, err
	}
	defer g.done()
	b := make([]byte, 4+8*nfs3.MaxACE)
	size, err := unix.Getxattr(procName(g.fd), aclName(inherited), b)
	switch {
	case errors.Is(err, unix.ENODATA):
		return nil, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, nfs3.ErrNotSupp
	case err != nil:
		return nil, status(err)
	case size < 4 || (size-4)%8 != 0 || binary.LittleEndian.Uint32(b) != aclVersion:
		return nil, nfs3.ErrNotSupp
	}
	var a nfs3.ACL
	for e := b[4:size]; len(e) > 0; e = e[8:] {
		a = append(a, nfs3.ACE{
			Tag: uint32(binary.LittleEndian.Uint16(e)), Perm: uint32(binary.LittleEndian.Uint16(e[2:])), ID: binary.LittleEndian.Uint32(e[4:]),
		})
	}
	return a, nil
}

// SetACL has the kernel decide whether the caller may, and whether the ACL is one.
func (n *file) SetACL(inherited bool, a nfs3.ACL) error {
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	name := procName(g.fd)
	err = n.do(func() error {
		if len(a) == 0 {
			if err := unix.Removexattr(name, aclName(inherited)); !errors.Is(err, unix.ENODATA) {
				return err
			}
			return nil
		}
		b := binary.LittleEndian.AppendUint32(nil, aclVersion)
		for _, e := range a {
			id := ^uint32(0)
			if e.Tag == nfs3.ACEUser || e.Tag == nfs3.ACEGroup {
				id = e.ID
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
			b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		return unix.Setxattr(name, aclName(inherited), b, 0)
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nfs3.ErrNotSupp
	}
	if err != nil {
		return status(err)
	}
	return n.settleAttr()
}
