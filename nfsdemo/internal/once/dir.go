package once

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// fileName is the name of the journal in its directory.
const fileName = "journal"

// OpenDir opens the journal in a directory, and makes one if there is none. The directory must exist,
// and be on a file system that keeps synced data. The file is locked: only one server at a time can
// have it open. Close also closes the file. Errors: those of Open, of package pmem and of the file
// system.
func OpenDir(dir string, o *Options) (*Journal, error) {
	path := filepath.Join(dir, fileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createFile(dir, path, o.withDefaults().Capacity); err != nil {
			return nil, err
		}
	}
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		return nil, err
	}
	j, err := Open(mem, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), mem.Close())
	}
	j.owned = true
	return j, nil
}

// minCapacity is the smallest ring: a few of the largest records.
const minCapacity = 256 << 10

// createFile makes the file under another name and renames it, so that path is always a whole journal.
func createFile(dir, path string, capacity int) error {
	if capacity < minCapacity || capacity%4096 != 0 {
		return fmt.Errorf("once: a capacity of %d octets: want a multiple of 4096, at least %d", capacity, minCapacity)
	}
	size, err := commitlog.MemorySize(uint64(capacity))
	if err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := pmem.Create(tmp, size, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(pmem.File, tmp, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(Create(mem), mem.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return pmem.SyncDir(dir)
}

// release closes the log and, if OpenDir has opened it, its memory.
func (j *Journal) release(ctx context.Context) error {
	if err := j.log.Close(ctx); err != nil || !j.owned {
		return err
	}
	return j.mem.Close()
}
