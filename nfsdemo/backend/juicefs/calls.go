package juicefs

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/redis/go-redis/v9"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// A call that comes again, at any server, is known in two ways. A new file has a mark of its call, in a field of its
// attributes that only devices use: it is there as soon as the file is. What a call finds that removes or moves a name
// is in the database, beside JuiceFS's tables, before the name changes.

var (
	_ backend.Shared   = (*FS)(nil)
	_ backend.Marked   = (*file)(nil)
	_ backend.Finisher = (*file)(nil)
)

// isDevice reports whether the device number of a file counts.
func isDevice(typ uint8) bool { return typ == meta.TypeBlockDev || typ == meta.TypeCharDev }

// mark is what of a CallID fits into a device number, which PostgreSQL keeps as a signed one; 0 stands for no mark.
func mark(id backend.CallID) uint32 { return max(binary.BigEndian.Uint32(id[:])>>1, 1) }

// MadeBy implements backend.Marked. Of two calls, one in 2^31 has the mark of the other.
func (n *file) MadeBy(id backend.CallID) (bool, error) {
	a, err := n.stat()
	return err == nil && !isDevice(a.Typ) && a.Rdev == mark(id), err
}

// Finish implements backend.Finisher.
func (n *file) Finish(in *backend.Init) error {
	a, err := n.stat()
	if err != nil || a.Ctime != a.Mtime || a.Ctimensec != a.Mtimensec { // it was changed after it was made
		return err
	}
	_, err = n.dress(in, &a)
	return err
}

// Remember implements backend.Shared.
func (f *FS) Remember(ctx context.Context, id backend.CallID, found []byte) ([]byte, bool, error) {
	if f.v.calls == nil {
		return nil, false, nil
	}
	was, again, err := f.v.calls.remember(ctx, append(f.v.uuid[:], id[:]...), found)
	if err != nil {
		return nil, false, nfs3.ErrJukebox // nothing was changed, and the database may come back
	}
	return was, again, nil
}

// callTime is how long a call is remembered; clients give up earlier, or ask again each minute.
const callTime = 15 * time.Minute

// calls is a table of calls, with what they have found.
type calls interface {
	remember(ctx context.Context, id, found []byte) (was []byte, again bool, err error)
	close() error
}

// openCalls opens the table in a database, nil if that is one that checkMeta could not ask either.
func openCalls(ctx context.Context, uri string) (calls, error) {
	if strings.HasPrefix(uri, "postgres://") {
		return openPostgresCalls(ctx, uri)
	}
	o, err := redis.ParseURL(uri)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // Redis Sentinel or Cluster
	}
	return &redisCalls{redis.NewClient(o)}, nil
}

// postgresCalls are the rows of a table.
type postgresCalls struct {
	db   *sql.DB
	stop context.CancelFunc
	done chan struct{}
}

// callConns are connections to PostgreSQL for calls.
const callConns = 4

const (
	createCalls = `CREATE TABLE IF NOT EXISTS stag_calls (id bytea PRIMARY KEY, found bytea NOT NULL, made timestamptz NOT NULL DEFAULT now())`
	enterCall   = `INSERT INTO stag_calls AS c (id, found) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET made = c.made RETURNING c.found, xmax <> 0`
	expireCalls = `DELETE FROM stag_calls WHERE made < now() - $1 * interval '1 second'`
)

func openPostgresCalls(ctx context.Context, uri string) (*postgresCalls, error) {
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
	c := &postgresCalls{db: db, done: make(chan struct{})}
	ctx, c.stop = context.WithCancel(context.Background())
	go c.expire(ctx)
	return c, nil
}

// expire deletes old rows.
func (c *postgresCalls) expire(ctx context.Context) {
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

func (c *postgresCalls) remember(ctx context.Context, id, found []byte) (was []byte, again bool, err error) {
	if found == nil {
		found = []byte{} // not NULL
	}
	err = c.db.QueryRowContext(ctx, enterCall, id, found).Scan(&was, &again)
	return was, again, err
}

func (c *postgresCalls) close() error {
	c.stop()
	<-c.done
	return c.db.Close()
}

// redisCalls are keys that expire.
type redisCalls struct{ db *redis.Client }

var enterKey = redis.NewScript(`
local was = redis.call('GET', KEYS[1])
if not was then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
return was`)

func (c *redisCalls) remember(ctx context.Context, id, found []byte) ([]byte, bool, error) {
	was, err := enterKey.Run(ctx, c.db, []string{"stag.call." + string(id)}, found, int(callTime.Seconds())).Text()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return []byte(was), err == nil, err
}

func (c *redisCalls) close() error { return c.db.Close() }
