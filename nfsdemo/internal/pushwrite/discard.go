package pushwrite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// Errors of Inspect and Discard.
var (
	// ErrNoLogs: no server of push-mode writes has used this directory.
	ErrNoLogs = errors.New("pushwrite: no push logs here (name the directory that the server uses)")
	// ErrNoLease: the store has no such lease. Its records have been applied, or it never
	// existed.
	ErrNoLease = errors.New("pushwrite: no such lease (Inspect lists the leases with waiting records)")
	// ErrNoLog: the directory has no log with this name.
	ErrNoLog = errors.New("pushwrite: no log with this name (use the name of its file without .log)")
)

// Waiting is a record of a log that was acknowledged but has not been applied.
type Waiting struct {
	Log    string
	Record uint64 // its number in the log
	Lease  uint64
	File   nfs3.FileHandle // of the lease; nil if unknown: the log is condemned
	Offset uint64          // in the file, octets
	Octets int
	Void   bool // it is discarded, and will be removed by the next Start
}

// Inspect calls visit, in order, for each record that waits in the logs of a directory, and changes
// nothing. An error of visit ends Inspect. No server may have the directory open; otherwise the error is
// pmem.ErrLocked. Other errors: ErrNoLogs, ErrStore, and, after the logs that can be read, one
// *push.Error for each log that cannot. If only the tail word of a log is damaged, Inspect visits the
// records that commitlog.Salvage finds.
func Inspect(dir string, kind pmem.Kind, visit func(*Waiting) error) error {
	lock, err := hold(dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	live, err := loadStore(dir)
	if err != nil {
		return err
	}
	logs := push.Dir(dir, kind)
	names, err := logs.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		stop, err := inspectLog(logs, name, live, visit)
		if stop {
			return err
		}
		if err != nil {
			errs = append(errs, &push.Error{Op: "load", Log: name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Discard gives up the records that wait under a lease: the next server releases them without writing
// them, and applies the others. It is for records that can never be applied, for example because
// somebody has removed their file locally; until then the records after them are not applied either. The
// acknowledged data of these records are lost. When Discard returns nil, this is durable. Errors: those
// of Inspect, ErrNoLease.
func Discard(dir string, id uint64) error {
	lock, err := hold(dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	if _, err := loadStore(dir); err != nil {
		return err
	}
	st, l, err := openStore(dir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(l.live, func(e stored) bool { return e.ID == lease.ID(id) })
	if i < 0 {
		return errors.Join(fmt.Errorf("lease %d: %w", id, ErrNoLease), st.close())
	}
	l.live[i].Void = true
	err = st.renew()
	return errors.Join(err, st.close())
}

// GiveUp removes a log that cannot be read, is condemned, or that nobody uses. The records that wait in
// it are lost. The next server has room for another log, serves the files that wait for this one again,
// and refuses its client. When GiveUp returns nil, this is durable; otherwise call it again. Errors:
// pmem.ErrLocked, ErrNoLogs, ErrNoLog, those of the directory.
func GiveUp(dir, name string) error {
	lock, err := hold(dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	err = push.RemoveLog(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %q: %w", dir, name, ErrNoLog)
	}
	return err
}

// hold locks a directory that a server has used, to keep servers out.
func hold(dir string) (*pmem.Memory, error) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoLogs)
	}
	return pmem.Open(pmem.File, path, nil)
}

// loadStore reads the leases and does not change their file.
func loadStore(dir string) (map[lease.ID]stored, error) {
	l, err := readStore(filepath.Join(dir, storeName))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", dir, ErrNoLogs)
	}
	if err != nil {
		return nil, err
	}
	byID := make(map[lease.ID]stored)
	for _, e := range l.live {
		byID[e.ID] = e
	}
	return byID, nil
}

// inspectLog visits the records that wait in a log. stop says that err is that of visit.
func inspectLog(logs push.Store, name string, live map[lease.ID]stored, visit func(*Waiting) error) (stop bool, err error) {
	mem, _, err := logs.Open(name)
	if err != nil {
		return false, err
	}
	defer mem.Close() //nolint:errcheck // nothing was written
	see := func(r *commitlog.Record) error {
		rec, err := pushfile.ParseRecord(r.Payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		w := Waiting{Log: name, Record: r.Seq, Lease: rec.Lease, Offset: rec.Offset, Octets: len(rec.Data)}
		if e := live[lease.ID(rec.Lease)]; e.Log == name {
			w.File, w.Void = e.Grant.File, e.Void
		}
		err = visit(&w)
		stop = err != nil
		return err
	}
	src, size := bytes.NewReader(mem.Bytes()), int64(len(mem.Bytes()))
	info, err := commitlog.Inspect(src, size, see)
	if commitlog.TailError(err) {
		if _, serr := commitlog.Salvage(src, size, func(r *commitlog.Record, _ bool) error { return see(r) }); serr != nil {
			err = serr
		}
		return stop, err
	}
	if err == nil && info.Poison != nil {
		err = info.Poison
	}
	return stop, err
}
