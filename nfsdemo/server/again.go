package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// callID identifies the call for other servers of the same files, nil if there are none. It holds what the
// transport's cache of replies compares, too.
func (o *op) callID() *backend.CallID {
	if _, ok := o.exp.FS.(backend.Shared); !ok {
		return nil
	}
	k := callid.Of(o.c.RemoteAddr, &o.c.CallHeader, len(o.c.Args))
	h := sha256.New()
	var b []byte
	for _, n := range [...]uint32{k.XID, k.Prog, k.Vers, k.Proc, k.Client.Flavor, uint32(len(k.Client.Addr)), uint32(len(k.Client.Cred))} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	h.Write(b)
	h.Write([]byte(k.Client.Addr))
	h.Write([]byte(k.Client.Cred))
	h.Write(o.c.Args)
	id := backend.CallID(h.Sum(nil)[:len(backend.CallID{})])
	return &id
}

// gone reports whether the file that had a name has it no longer.
func gone(was, is nfs3.FileHandle) bool { return len(was) > 0 && !bytes.Equal(was, is) }

// notTwice runs a call that changes a name, unless that has happened at another server, from which no answer came.
// done compares the files that the name had before, empty for none, and has now.
func (o *op) notTwice(dir *file, name string, done func(was, is nfs3.FileHandle) bool, run func() error) error {
	s, ok := o.exp.FS.(backend.Shared)
	if !ok {
		return run()
	}
	is, err := o.idAt(dir, name)
	if err != nil {
		return err
	}
	id := *o.callID()
	was, times, err := s.Remember(o.ctx, id, is)
	if err != nil || times > 1 && done(was, is) {
		return err
	}
	err = run()
	if !errors.Is(err, nfs3.ErrNoEnt) && !errors.Is(err, nfs3.ErrExist) {
		return err
	}
	// Another server may be at the same call, and was faster. That it has it, it has said before it ran it.
	if times == 1 {
		if _, times, rerr := s.Remember(o.ctx, id, is); rerr != nil || times == 2 { // only this one, twice
			return err
		}
	}
	if is, ierr := o.idAt(dir, name); ierr == nil && done(was, is) {
		return nil
	}
	return err
}

// lookAt finds the file of a name, or none, whatever the permissions are.
func (o *op) lookAt(dir *file, name string) (file, error) {
	if dir.attr.Type != nfs3.TypeDir {
		return file{}, nfs3.ErrNotDir
	}
	n, a, err := dir.node.Lookup(name)
	if err == nfs3.ErrNoEnt { //nolint:errorlint // backends return it unwrapped
		return file{}, nil
	}
	return file{node: n, attr: a}, err
}

// idAt returns the handle of the file that has a name, empty if there is none.
func (o *op) idAt(dir *file, name string) (nfs3.FileHandle, error) {
	f, err := o.lookAt(dir, name)
	if err != nil || f.node == nil {
		return nil, err
	}
	return o.exp.appendHandle(nil, f.node), nil
}
