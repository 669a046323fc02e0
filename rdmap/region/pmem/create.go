package pmem

import (
	"errors"
	"os"
	"path/filepath"
)

// Create creates the file of a memory of size octets, all zeros. It writes the zeros, so that
// every octet has its place on the medium: a hole could turn a later store into ENOSPC, which is
// a fault in a mapping. When Create returns nil, the file and its name are durable. After an
// error there is no file called path, unless the cause is fs.ErrExist. After a crash there is none,
// or all of it; a hidden file with another name may be left behind.
//
// Errors: ErrCreate with the cause, and ErrSize.
func Create(path string, size int, o *Options) error {
	if size <= 0 {
		return &Error{Op: opCreate, Path: path, Kind: ErrSize, Err: &sizeError{got: int64(size), want: 1}}
	}
	if err := create(path, size, o.orDefault().Hooks); err != nil {
		return &Error{Op: opCreate, Path: path, Kind: ErrCreate, Err: err}
	}
	return nil
}

// create fills a file with another name, and then links it to path, so that whoever opens path
// finds all of it.
func create(path string, size int, h *Hooks) error {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist // now, before gigabytes are written; Link checks it again
	}
	dir, base := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+base+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(fill(&device{f: f, out: f, path: f.Name(), size: size, hooks: h}), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	err = h.Call(OpDirectory, 0, 0)
	if err == nil {
		err = SyncDir(filepath.Clean(dir))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// fill writes the zeros and syncs.
func fill(d *device) error {
	zeros := make([]byte, min(d.size, 1<<20))
	for off := 0; off < d.size; off += len(zeros) {
		if err := d.write(zeros[:min(len(zeros), d.size-off)], off); err != nil {
			return err
		}
	}
	return d.datasync() // this syncs the size too, without which the data could not be read
}
