package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

const (
	// payload is how many octets are made durable at a time.
	payload = 4096
	// openTime limits the work before and after a measurement.
	openTime = 20 * time.Second
)

// ringSize is the size of a log's ring, and of the part of a file that is written over and over,
// in octets; tests make it smaller.
var ringSize = 4 << 20

// writer makes octets durable at the server.
type writer interface {
	// write makes p durable, after the octets of the last call.
	write(p []byte) error
	// apply returns when all octets are in the file.
	apply() error
	close()
}

// dialer makes writer number i; each has a file of its own.
type dialer func(i int) (writer, error)

// client is a connection to a server, and its export.
type client struct {
	*nfsclient.Client
	caller rpc.Caller // the same connection
}

// dial mounts the export over a socket of package measure.
func dial(ctx context.Context, addr string, cfg *transport.Config) (*client, error) {
	nc, err := measure.Dial(addr)
	if err != nil {
		return nil, err
	}
	caller, err := transport.NewClient(ctx, nc, cfg)
	if err != nil {
		nc.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	fh, err := nfsclient.NewMounter(caller, nfsclient.ProcessCred()).Mount(ctx, exportPath)
	if err != nil {
		caller.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	c, err := nfsclient.New(ctx, caller, fh, exportPath, nil)
	if err != nil {
		return nil, err
	}
	return &client{c, caller}, nil
}

// target is where a writer writes.
type target struct {
	c      *nfsclient.Client
	f      *nfsclient.Node
	off    int64
	extend bool
}

// newTarget makes the file, empty if the writes extend it.
func newTarget(ctx context.Context, c *nfsclient.Client, name string, extend bool) (*target, error) {
	f, err := c.Create(ctx, c.Root(), name, 0o600, false)
	if err == nil && !extend {
		_, err = c.WriteFrom(ctx, f, nfsclient.Memory(make([]byte, ringSize)), int64(ringSize), nil)
	}
	return &target{c: c, f: f, extend: extend}, err
}

// next returns where the next n octets go.
func (t *target) next(n int) int64 {
	if !t.extend && t.off+int64(n) > int64(ringSize) {
		t.off = 0
	}
	t.off += int64(n)
	return t.off - int64(n)
}

// pulledConfig is the configuration of clients whose WRITEs of 4096 octets are pulled by RDMA Read.
func pulledConfig() *transport.Config {
	return &transport.Config{InlineSend: transport.DefaultInlineSize}
}

// nfsWriter writes by WRITE with FILE_SYNC.
type nfsWriter struct{ *target }

// byWrite writes over an existing file, or, if extend, to the end of a growing one.
func byWrite(addr string, cfg *transport.Config, extend bool) dialer {
	return func(i int) (writer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		c, err := dial(ctx, addr, cfg)
		if err != nil {
			return nil, err
		}
		t, err := newTarget(ctx, c.Client, fmt.Sprintf("write.%d", i), extend)
		if err != nil {
			c.Close() //nolint:errcheck // the first error counts
			return nil, err
		}
		return nfsWriter{t}, nil
	}
}

func (w nfsWriter) write(p []byte) error {
	_, _, err := w.c.WriteAt(context.Background(), w.f, p, w.next(len(p)), nfs3.FileSync)
	return err
}

func (w nfsWriter) apply() error { return nil }
func (w nfsWriter) close()       { w.c.Close() } //nolint:errcheck // every answer is there

// logs are the logs of a server whose secrets this process has.
type logs struct {
	at string

	mu      sync.Mutex
	secrets map[string]push.Secret
}

func newLogs(at string) *logs { return &logs{at: at, secrets: make(map[string]push.Secret)} }

// config returns the configuration for the log name.
func (l *logs) config(name string) *nfsclient.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.secrets[name] == (push.Secret{}) {
		l.secrets[name] = push.NewSecret()
	}
	return &nfsclient.Config{Push: &nfsclient.PushConfig{Log: name, Secret: l.secrets[name], Capacity: uint64(ringSize)}}
}

// pushWriter writes by push.
type pushWriter struct {
	*target
	pf *nfsclient.PushFile
}

// byPush is byWrite, but by push.
func (l *logs) byPush(extend bool) dialer {
	return func(i int) (writer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		u, err := nfsclient.ParseURL("nfs+rdma://" + l.at + exportPath)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("push.%d", i)
		c, err := nfsclient.Dial(ctx, u, l.config(name))
		if err != nil {
			return nil, err
		}
		w, err := newPushWriter(ctx, c, name, extend)
		if err != nil {
			c.Close() //nolint:errcheck // the first error counts
			return nil, err
		}
		return w, nil
	}
}

func newPushWriter(ctx context.Context, c *nfsclient.Client, name string, extend bool) (*pushWriter, error) {
	t, err := newTarget(ctx, c, name, extend)
	if err != nil {
		return nil, err
	}
	pf, err := c.OpenPush(ctx, t.f, 0)
	if err != nil {
		return nil, err
	}
	if r := pf.Rung(); r != push.Native {
		return nil, fmt.Errorf("bench: the log is reached by rung %v, not native", r)
	}
	return &pushWriter{t, pf}, nil
}

func (w *pushWriter) write(p []byte) error {
	_, level, err := w.pf.WriteAt(context.Background(), p, w.next(len(p)))
	if err == nil && level != commitlog.Persistent {
		err = fmt.Errorf("bench: pushed data are only %v", level)
	}
	return err
}

func (w *pushWriter) apply() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return w.pf.Close(ctx)
}

func (w *pushWriter) close() {
	_ = w.apply() // its error was reported where it counts
	w.c.Close()   //nolint:errcheck // as with nfsWriter
}
