package juicefs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/chunk"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Defaults of [Config].
const (
	DefaultBuffer = 256 << 20
	DefaultCache  = 64 << 20
)

// Config says how a Volume is used. Open copies it.
type Config struct {
	// Trust accepts a database and an object store of which Open cannot find out whether they keep what they
	// have acknowledged.
	Trust bool
	// Buffer is about how many octets may be unstable or read ahead; writers wait when it is full. If zero,
	// DefaultBuffer.
	Buffer uint64
	// Cache is the number of octets of objects that are kept in memory. Objects never change. If zero, DefaultCache.
	Cache uint64
	// Name stands for this server where JuiceFS lists its clients.
	Name string
}

// Volume is a JuiceFS volume that this process uses. It is safe for concurrent use.
type Volume struct {
	m      meta.Meta
	joined bool      // it has a session
	shared meta.Meta // with the session that owns all locks of all servers
	lister meta.Meta // reads lists; without a session
	blob   *watched
	reader vfs.DataReader
	writer vfs.DataWriter
	ctx    meta.Context // this process, which may do everything
	files  *openFiles
	lists  lists

	name  string
	uuid  [uuidSize]byte
	fsid  uint64
	key   key
	names key // of cookies

	listing chan struct{} // holds an element for each directory that is read now
	locks   lockers
	calls   *calls

	mu    sync.Mutex
	write nfs3.WriteVerf
}

// maxListing limits the directories that are read at a time: all of their names are in memory.
const maxListing = 4

// Open begins to use the volume whose metadata are at uri, for example postgres://user@host/db. A nil cfg means the defaults. Errors: *RefusedError if the volume could lose what it has
// acknowledged, others if it cannot be reached.
func Open(ctx context.Context, uri string, cfg *Config) (*Volume, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if err := checkMeta(ctx, uri, cfg.Trust); err != nil {
		return nil, err
	}
	v := &Volume{
		ctx:     meta.WrapWithoutCancel(context.Background(), 0, 0, []uint32{0}),
		listing: make(chan struct{}, maxListing),
	}
	rand.Read(v.write[:]) // never fails (crypto/rand)
	if err := v.open(ctx, uri, cfg); err != nil {
		_ = v.release() // the first error counts
		return nil, err
	}
	return v, nil
}

// open opens everything. If it returns an error, some of it is open.
func (v *Volume) open(ctx context.Context, uri string, cfg *Config) error {
	var err error
	if v.m, err = newClient(pooled(uri, openConns, serializable), cfg.metaConfig()); err != nil {
		return err
	}
	format, err := v.m.Load(true)
	if err != nil {
		if strings.HasPrefix(err.Error(), "database is not formatted") { // all that JuiceFS says
			return fmt.Errorf("juicefs: %s has no volume: make one with stagjfs format", hide(uri))
		}
		return fmt.Errorf("juicefs: %s: %w", hide(uri), err)
	}
	if v.lister, err = newClient(pooled(uri, maxListing, readCommitted), cfg.metaConfig()); err != nil {
		return err
	}
	if _, err = v.lister.Load(false); err != nil {
		return fmt.Errorf("juicefs: %s: %w", hide(uri), err)
	}
	id, err := uuid.Parse(format.UUID)
	if err != nil {
		return fmt.Errorf("juicefs: the UUID of volume %s is %q: %w", format.Name, format.UUID, err)
	}
	v.name, v.uuid, v.fsid = format.Name, id, binary.BigEndian.Uint64(id[:])
	if v.blob, err = openStore(ctx, *format, cfg.Trust); err != nil {
		return err
	}
	conf := cfg.chunkConfig(format)
	store := chunk.NewCachedStore(v.blob, *conf, nil)
	v.m.OnMsg(meta.DeleteSlice, func(args ...any) error { return store.Remove(args[0].(uint64), int(args[1].(uint32))) })
	v.m.OnMsg(meta.CompactChunk, func(args ...any) error {
		return vfs.Compact(*conf, store, args[0].([]meta.Slice), args[1].(uint64), args[2].(uint8))
	})
	if err := v.m.NewSession(true); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	v.joined = true
	vc := &vfs.Config{Meta: cfg.metaConfig(), Format: *format, Chunk: conf}
	v.reader = vfs.NewDataReader(vc, v.m, store)
	v.writer = vfs.NewDataWriter(vc, v.m, store, v.reader)
	v.files = newOpenFiles(v)
	if err := v.sharedKey(); err != nil {
		return err
	}
	v.names = v.key.derive("names")
	if v.calls, err = openCalls(ctx, uri); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	return v.openLocks(uri, cfg)
}

func (c *Config) metaConfig() *meta.Config {
	conf := meta.DefaultConf()
	conf.MountPoint = "stag " + c.Name
	return conf
}

// chunkConfig is that of juicefs mount, with a cache in memory.
func (c *Config) chunkConfig(format *meta.Format) *chunk.Config {
	conf := &chunk.Config{
		BlockSize: format.BlockSize << 10, Compress: format.Compression, HashPrefix: format.HashPrefix,
		GetTimeout: flushTime / 2, PutTimeout: flushTime / 2, MaxUpload: 20, MaxDownload: 200, MaxRetries: 10,
		UploadLimit: format.UploadLimit * 1e6 / 8, DownloadLimit: format.DownloadLimit * 1e6 / 8,
		BufferSize: c.Buffer, CacheDir: "memory", CacheSize: c.Cache, CacheFullBlock: true,
	}
	if conf.BufferSize == 0 {
		conf.BufferSize = DefaultBuffer
	}
	if conf.CacheSize == 0 {
		conf.CacheSize = DefaultCache
	}
	conf.Readahead = 8 * conf.BlockSize
	conf.SelfCheck(format.UUID)
	return conf
}

// keyName is where the key is. Only root of a machine that mounts the volume can read trusted attributes.
const keyName = "trusted.stag.key"

// sharedKey reads the key of the volume, or makes it. Of servers that do so at the same time, one wins.
func (v *Volume) sharedKey() error {
	var b []byte
	st := v.m.GetXattr(v.ctx, meta.RootInode, keyName, &b)
	if st == meta.ENOATTR {
		b = make([]byte, keySize)
		rand.Read(b) // never fails (crypto/rand)
		if st = v.m.SetXattr(v.ctx, meta.RootInode, keyName, b, meta.XattrCreate); st == syscall.EEXIST {
			st = v.m.GetXattr(v.ctx, meta.RootInode, keyName, &b)
		}
	}
	switch {
	case st != 0:
		return fmt.Errorf("juicefs: the key of handles: %w", st)
	case len(b) != keySize:
		return fmt.Errorf("juicefs: the key of handles has %d octets instead of %d: remove the attribute %s of the volume's root, and clients have to mount again", len(b), keySize, keyName)
	}
	copy(v.key[:], b)
	return nil
}

// verf returns the write verifier.
func (v *Volume) verf() nfs3.WriteVerf {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.write
}

// newVerf changes it.
func (v *Volume) newVerf() {
	v.mu.Lock()
	defer v.mu.Unlock()
	rand.Read(v.write[:]) // never fails (crypto/rand)
}

// Name returns the name that the volume was formatted with.
func (v *Volume) Name() string { return v.name }

// Close makes everything stable and leaves the volume. Its FS must not be used afterwards.
func (v *Volume) Close() error { return v.release() }

func (v *Volume) release() error {
	var errs []error
	if v.files != nil {
		errs = append(errs, v.files.close())
	}
	if v.calls != nil {
		errs = append(errs, v.calls.close())
	}
	if v.shared != nil { // its session is that of other servers too
		errs = append(errs, v.shared.Shutdown())
	}
	if v.lister != nil {
		errs = append(errs, v.lister.Shutdown())
	}
	if v.joined {
		errs = append(errs, v.m.CloseSession())
	}
	if v.m != nil {
		errs = append(errs, v.m.Shutdown())
	}
	if v.blob != nil {
		object.Shutdown(v.blob)
	}
	return errors.Join(errs...)
}
