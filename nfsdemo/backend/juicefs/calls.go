package juicefs

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"net/url"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// A call that comes again, at any server, is known in two ways. A new file has a mark of its call, in a field of its
// attributes that only devices use: it is there as soon as the file is. What a call finds that removes or moves a name
// is in the database, beside JuiceFS's tables, before the name changes.

var _ backend.Shared = (*FS)(nil)

// isDevice reports whether the device number of a file counts.
func isDevice(typ uint8) bool { return typ == meta.TypeBlockDev || typ == meta.TypeCharDev }

// mark is what of a CallID fits into a device number, which PostgreSQL keeps as a signed one; 0 stands for no mark.
func mark(id backend.CallID) uint32 { return max(binary.BigEndian.Uint32(id[:])>>1, 1) }

// again returns the file of a name that exists, if Create has made it with the same verifier, or for the same call. Of two calls, one
// in 2^31 has the mark of the other.
func (n *file) again(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	c, a, err := n.Lookup(name)
	if err != nil {
		return nil, nfs3.Attr{}, nfs3.ErrExist
	}
	if in.Verf != nil && a.Type == nfs3.TypeReg && a.Size == 0 {
		if at, mt := verfTimes(*in.Verf); a.Atime == at && a.Mtime == mt {
			return c, a, nil
		}
	}
	f := c.(*file) //nolint:errcheck // of this FS
	m, err := f.stat()
	if err != nil || in.Call == nil || isDevice(m.Typ) || m.Rdev != mark(*in.Call) {
		return nil, nfs3.Attr{}, nfs3.ErrExist
	}
	if m.Ctime == m.Mtime && m.Ctimensec == m.Mtimensec { // nobody has changed it since it was made: a crash may have come before dress
		if _, err := f.dress(in, &m); err != nil {
			return nil, nfs3.Attr{}, err
		}
	}
	a, err = f.Attr()
	return f, a, err
}

// Remember implements backend.Shared.
func (f *FS) Remember(ctx context.Context, id backend.CallID, found []byte) ([]byte, int, error) {
	was, times, err := f.v.calls.remember(ctx, append(f.v.uuid[:], id[:]...), found)
	if err != nil {
		return nil, 0, nfs3.ErrJukebox // nothing was changed, and the database may come back
	}
	return was, times, nil
}

// callTime is how long a call is remembered; clients give up earlier, or ask again each minute.
const callTime = 15 * time.Minute

// calls is a table of calls, with what they have found.
type calls struct {
	db   *sql.DB
	stop context.CancelFunc
	done chan struct{}
}

// callConns are connections to PostgreSQL for calls.
const callConns = 4

const (
	createCalls = `CREATE TABLE IF NOT EXISTS stag_calls (id bytea PRIMARY KEY, found bytea NOT NULL, times int NOT NULL DEFAULT 1, made timestamptz NOT NULL DEFAULT now())`
	enterCall   = `INSERT INTO stag_calls AS c (id, found) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET times = c.times + 1 RETURNING c.found, c.times`
	expireCalls = `DELETE FROM stag_calls WHERE made < now() - $1 * interval '1 second'`
)

func openCalls(ctx context.Context, uri string) (*calls, error) {
	u, err := url.Parse(plain(uri))
	if err != nil {
		return nil, err
	}
	q := u.Query()
	// The log of PostgreSQL has one order: when the change of the name is durable, so is the row before it.
	q.Set("synchronous_commit", "off")
	q.Set("default_transaction_isolation", readCommitted) // one statement a transaction, which nobody repeats
	u.RawQuery = q.Encode()
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(callConns)
	db.SetMaxIdleConns(callConns)
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if _, err = db.ExecContext(ctx, createCalls); err != nil {
		_, err = db.ExecContext(ctx, createCalls) // of two servers that make it at the same moment, one may fail
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c := &calls{db: db, done: make(chan struct{})}
	ctx, c.stop = context.WithCancel(context.Background())
	go c.expire(ctx)
	return c, nil
}

// expire deletes old rows.
func (c *calls) expire(ctx context.Context) {
	defer close(c.done)
	for tick := time.Tick(callTime / 10); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			_, _ = c.db.ExecContext(ctx, expireCalls, callTime.Seconds()) // the next time
		}
	}
}

func (c *calls) remember(ctx context.Context, id, found []byte) (was []byte, times int, err error) {
	if found == nil {
		found = []byte{} // not NULL
	}
	err = c.db.QueryRowContext(ctx, enterCall, id, found).Scan(&was, &times)
	return was, times, err
}

func (c *calls) close() error {
	c.stop()
	<-c.done
	return c.db.Close()
}
