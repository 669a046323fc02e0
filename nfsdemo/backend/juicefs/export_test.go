package juicefs

import (
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
)

// Between runs made each time that the metadata have made a file, and changed after they have changed attributes, until
// undo.
func (v *Volume) Between(made, changed func()) (undo func()) {
	was := v.m
	v.m = &between{was, made, changed}
	return func() { v.m = was }
}

type between struct {
	meta.Meta
	made, changed func()
}

func (b *between) Mknod(
	ctx meta.Context, parent meta.Ino, name string, typ uint8, mode, umask uint16, rdev uint32, path string, ino *meta.Ino, a *meta.Attr,
) syscall.Errno {
	st := b.Meta.Mknod(ctx, parent, name, typ, mode, umask, rdev, path, ino, a)
	if st == 0 {
		b.made()
	}
	return st
}

func (b *between) SetAttr(ctx meta.Context, ino meta.Ino, set uint16, sugid uint8, a *meta.Attr) syscall.Errno {
	st := b.Meta.SetAttr(ctx, ino, set, sugid, a)
	if st == 0 {
		b.changed()
	}
	return st
}
