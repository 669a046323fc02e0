package juicefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/meta"
)

// Format makes a volume in the database at uri, with objects of up to 4 MiB in a bucket of a kind of store, whose keys are
// in ACCESS_KEY and SECRET_KEY. Errors: *RefusedError as of Open; others if there is a volume already, or if the database or
// the store cannot be used.
func Format(ctx context.Context, uri, name, kind, bucket string) error {
	if err := checkMeta(ctx, uri, false); err != nil {
		return err
	}
	if kind == "file" && !strings.HasSuffix(bucket, "/") {
		bucket += "/" // JuiceFS takes it for a prefix
	}
	f := &meta.Format{
		Name: name, UUID: uuid.NewString(), Storage: kind, Bucket: bucket,
		AccessKey: os.Getenv("ACCESS_KEY"), SecretKey: os.Getenv("SECRET_KEY"),
		BlockSize: 4096, DirStats: true, MetaVersion: meta.MaxVersion, MinClientVersion: "1.1.0-A",
	}
	m, err := newClient(pooled(uri, lockConns, serializable), meta.DefaultConf())
	if err != nil {
		return err
	}
	defer m.Shutdown() //nolint:errcheck // what Init has done is durable
	if old, err := m.Load(false); err == nil {
		return fmt.Errorf("juicefs: %s has a volume already, %s: name an empty database", hide(uri), old.Name)
	}
	if _, err := openStore(ctx, *f, false); err != nil {
		return err
	}
	if err := errors.Join(f.Encrypt(), m.Init(f, false)); err != nil {
		return fmt.Errorf("juicefs: %s: %w", hide(uri), err)
	}
	return nil
}
