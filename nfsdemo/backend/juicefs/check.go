package juicefs

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/juicedata/juicefs/pkg/utils"
)

// RefusedError says why a volume could lose what it has acknowledged, and what to do.
type RefusedError struct{ What, Why string }

// Error says both in one line.
func (e *RefusedError) Error() string { return "juicefs: " + e.What + ": " + e.Why }

// checkTime limits the questions to a database.
const checkTime = 10 * time.Second

// checkMeta refuses engines that do not keep what they acknowledge.
func checkMeta(ctx context.Context, uri string, trust bool) error {
	engine, _, ok := strings.Cut(uri, "://")
	switch {
	case !ok:
		return fmt.Errorf("juicefs: %q is no address of metadata: want postgres://user@host/db", uri)
	case engine == "postgres":
		if err := checkPostgres(ctx, uri, trust); err != nil {
			return err
		}
		return checkIsolation(ctx, pooled(uri, openConns, serializable))
	}
	return &RefusedError{"metadata in " + engine, "several servers cannot share it, or calls at the same moment go wrong there: use postgres://"}
}

// checkPostgres asks the database how it keeps what it commits.
func checkPostgres(ctx context.Context, uri string, trust bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	db, err := sql.Open("pgx", plain(uri))
	if err != nil {
		return fmt.Errorf("juicefs: %s: %w", hide(uri), err)
	}
	defer db.Close() //nolint:errcheck // it was only read
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := db.QueryRowContext(ctx, "SHOW "+name).Scan(&value); err != nil {
			return fmt.Errorf("juicefs: cannot ask %s: %w", hide(uri), err)
		}
		if value == "off" && !trust {
			return &RefusedError{"PostgreSQL with " + name + " off", "a crash loses what was acknowledged: turn it on"}
		}
	}
	return nil
}

// checkIsolation refuses a connection whose transactions are not serializable: its address, or what stands between, says
// otherwise than pooled.
func checkIsolation(ctx context.Context, uri string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	db, err := sql.Open("pgx", plain(uri))
	if err != nil {
		return fmt.Errorf("juicefs: %s: %w", hide(uri), err)
	}
	defer db.Close() //nolint:errcheck // it was only read
	var level string
	if err := db.QueryRowContext(ctx, "SHOW transaction_isolation").Scan(&level); err != nil {
		return fmt.Errorf("juicefs: cannot ask %s: %w", hide(uri), err)
	}
	if level != serializable {
		return &RefusedError{
			"PostgreSQL with transactions that are " + level,
			"calls at the same moment lose files: connect to PostgreSQL itself, with no default_transaction_isolation in the address",
		}
	}
	return nil
}

// Connections to a database, if its address does not say how many (max_open_conns).
const (
	openConns = 24
	lockConns = 4
)

// idleTransaction is how long, in ms, PostgreSQL keeps the transaction of a server that says nothing: whose machine has
// died, for instance. Until then the rows are locked for all others.
const idleTransaction = 10000

// Isolation of transactions. JuiceFS reads, and then writes what follows from it, without a lock on all that it has read:
// below serializable, two REMOVEs of one of two links take both, and at repeatable read two clients get the same lock. It
// repeats a transaction that PostgreSQL refuses (40001), 50 times. But where it reads many rows, it takes those before such a
// refusal for all of them: lists are read with another connection, where one statement is never refused.
const (
	serializable  = "serializable"
	readCommitted = "read committed"
)

// rolledBack is what a COMMIT says after a refusal that JuiceFS has not looked at: nothing has happened.
type rolledBack struct{ error }

// SafeToRetry is where JuiceFS asks whether to repeat a transaction.
func (rolledBack) SafeToRetry() bool { return true }

// JuiceFS ignores the error of a query in doWrite, and xorm that of rows. It would end the call at the COMMIT.
func init() { pgx.ErrTxCommitRollback = rolledBack{pgx.ErrTxCommitRollback} }

// pooled bounds the connections to a database, and keeps them: PostgreSQL has a process for each.
func pooled(uri string, conns int, isolation string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "postgres" {
		return uri
	}
	q := u.Query()
	n := strconv.Itoa(conns)
	for k, value := range map[string]string{
		"max_open_conns": n, "max_idle_conns": n, "default_transaction_isolation": isolation,
		"idle_in_transaction_session_timeout": strconv.Itoa(idleTransaction),
	} {
		if !q.Has(k) {
			q.Set(k, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// plain removes from an address the parameters that JuiceFS takes for itself, and adds the password that it adds.
func plain(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	q := u.Query()
	for _, k := range []string{"max_open_conns", "max_idle_conns", "max_idle_time", "max_life_time", "table_prefix"} {
		q.Del(k)
	}
	u.RawQuery = q.Encode()
	if _, has := u.User.Password(); !has {
		if p := password(); p != "" {
			u.User = url.UserPassword(u.User.Username(), p)
		}
	}
	return u.String()
}

// password is where JuiceFS looks for it too.
func password() string {
	if p := os.Getenv("META_PASSWORD"); p != "" {
		return p
	}
	b, err := os.ReadFile(os.Getenv("META_PASSWORD_FILE"))
	if err != nil {
		return "" // JuiceFS says so
	}
	return strings.TrimSpace(string(b))
}

// synced are the object stores where an object is durable when it was put.
var synced = map[string]bool{"s3": true, "minio": true, "gs": true, "wasb": true, "ceph": true, "oss": true, "cos": true, "b2": true}

// openStore opens the object store of a volume.
func openStore(ctx context.Context, f meta.Format, trust bool) (*watched, error) {
	if err := f.Decrypt(); err != nil {
		return nil, fmt.Errorf("juicefs: the secrets of volume %s: %w", f.Name, err)
	}
	kind := strings.ToLower(f.Storage)
	var err error
	switch {
	case f.EncryptKey != "":
		err = &RefusedError{"volume " + f.Name, "it is encrypted by JuiceFS, which stag does not know: encrypt in the object store"}
	case kind == "postgres":
		err = checkPostgres(ctx, address(kind, &f), trust)
	case !synced[kind] && kind != "file" && !trust:
		err = &RefusedError{"objects in " + kind, "it is not known whether they are durable when they are put: if so, --trust-stores"}
	}
	if err != nil {
		return nil, err
	}
	var blob object.ObjectStorage
	if f.Shards > 1 {
		blob, err = object.NewSharded(kind, f.Bucket, f.AccessKey, f.SecretKey, f.SessionToken, f.Shards)
	} else {
		blob, err = object.CreateStorage(kind, f.Bucket, f.AccessKey, f.SecretKey, f.SessionToken)
	}
	if err != nil {
		return nil, fmt.Errorf("juicefs: the object store of volume %s: %w", f.Name, err)
	}
	if kind == "file" {
		if f.Shards > 1 {
			return nil, &RefusedError{"objects in several directories", "format the volume without --shards"}
		}
		blob = &syncedDir{blob, f.Bucket}
	}
	blob = object.WithPrefix(blob, f.Name+"/")
	if t, ok := blob.(object.SupportTier); ok {
		if err := t.InitTiers(f.Tiers); err != nil && !errors.Is(err, utils.ErrNotSUP) {
			return nil, fmt.Errorf("juicefs: the tiers of volume %s: %w", f.Name, err)
		}
	}
	if err := probe(ctx, blob); err != nil && !isFull(err) { // a full one can be read, and gets room by REMOVE
		return nil, fmt.Errorf("juicefs: volume %s cannot keep an object in %s %s, see juicefs config: %w", f.Name, kind, f.Bucket, err)
	}
	return &watched{ObjectStorage: blob, full: make(chan struct{})}, nil
}

// probe writes and removes an object: otherwise a wrong key shows only when clients wait for a COMMIT. It tries three
// times, since stores refuse a request now and then.
func probe(ctx context.Context, blob object.ObjectStorage) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	key := "stag-" + rand.Text()
	err := blob.Put(ctx, key, strings.NewReader(key))
	for range 2 {
		if err != nil && ctx.Err() == nil {
			err = blob.Put(ctx, key, strings.NewReader(key))
		}
	}
	if err == nil {
		_ = blob.Delete(ctx, key) // what is left of it does not matter
	}
	return err
}

// address is that of a database that holds objects.
func address(kind string, f *meta.Format) string {
	at := f.Bucket
	if _, rest, ok := strings.Cut(at, "://"); ok {
		at = rest
	}
	if f.AccessKey != "" || f.SecretKey != "" {
		at = url.UserPassword(f.AccessKey, f.SecretKey).String() + "@" + at
	}
	return kind + "://" + at
}

// hide removes the password from an address.
func hide(uri string) string { return utils.RemovePassword(uri) }

// fatalError is what JuiceFS would have ended the process with.
type fatalError struct{ status int }

// exits guards what JuiceFS's logger does with a fatal error: there is one for the whole process.
var exits sync.Mutex

// newClient connects to the metadata engine. JuiceFS ends the process if it cannot, after a line in its log.
func newClient(uri string, conf *meta.Config) (m meta.Meta, err error) {
	exits.Lock()
	defer exits.Unlock()
	log := utils.GetLogger("juicefs")
	exit := log.ExitFunc
	log.ExitFunc = func(status int) { panic(fatalError{status}) }
	defer func() {
		log.ExitFunc = exit
		if r := recover(); r != nil {
			if _, ok := r.(fatalError); !ok {
				panic(r)
			}
			err = fmt.Errorf("juicefs: %s cannot be reached: its log says why", hide(uri))
		}
	}()
	return meta.NewClient(uri, conf), nil
}
