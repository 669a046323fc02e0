package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

const (
	// payload is what is made durable at a time, octets.
	payload = 4096
	// openTime bounds what happens before a measurement.
	openTime = 20 * time.Second
)

// writer makes octets durable at the server.
type writer interface {
	// write makes len(p) octets durable, behind those of the last call.
	write(p []byte) error
	close()
}

// dialer makes the writer number i: each has a file of its own.
type dialer func(i int) (writer, error)

// client is a connection to a server, and its export.
type client struct {
	transport.Caller
	nfs *nfsclient.Client
}

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
	return &client{caller, c}, nil
}

// inlineConfig is the configuration of clients that send WRITEs inline.
func inlineConfig() *transport.Config {
	return &transport.Config{InlineSend: inlineSize, InlineRecv: inlineSize}
}

// nfsWriter writes by WRITE with FILE_SYNC.
type nfsWriter struct {
	*client
	f      *nfsclient.Node
	off    int64
	extend bool
}

// byWrite writes over a file that is there, or, if extend, to the end of one that grows.
func byWrite(addr string, cfg *transport.Config, extend bool) dialer {
	return func(i int) (writer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		c, err := dial(ctx, addr, cfg)
		if err != nil {
			return nil, err
		}
		f, err := c.nfs.Create(ctx, c.nfs.Root(), fmt.Sprintf("write.%d", i), 0o600, false)
		if err == nil && !extend {
			_, err = c.nfs.WriteFrom(ctx, f, nfsclient.Memory(make([]byte, ringSize)), int64(ringSize), nil)
		}
		if err != nil {
			c.Close() //nolint:errcheck // the first error counts
			return nil, err
		}
		return &nfsWriter{client: c, f: f, extend: extend}, nil
	}
}

func (w *nfsWriter) write(p []byte) error {
	n, _, err := w.nfs.WriteAt(context.Background(), w.f, p, w.off, nfs3.FileSync)
	if w.off += int64(n); !w.extend && w.off+int64(len(p)) > int64(ringSize) {
		w.off = 0
	}
	return err
}

func (w *nfsWriter) close() { w.Close() } //nolint:errcheck // every answer is there

// pushWriter writes by push.
type pushWriter struct {
	*client
	s   *push.Session
	off uint64
	rec []byte
	l   *logs
}

// logs are the logs of a server that this process has the secrets of, and what it has
// pushed to them.
type logs struct {
	at      string
	records atomic.Int64

	mu      sync.Mutex
	secrets map[string]*push.Secret
}

func newLogs(at string) *logs { return &logs{at: at, secrets: make(map[string]*push.Secret)} }

// config is that of the log called name.
func (l *logs) config(name string) *push.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &push.Config{Secret: l.secrets[name], Keep: func(s push.Secret) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.secrets[name] = &s
		return nil
	}}
}

// byPush implements dialer.
func (l *logs) byPush(i int) (writer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	c, err := dial(ctx, l.at, nil)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("push.%d", i)
	s, err := push.Dial(ctx, c, name, l.config(name))
	if err != nil {
		c.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	w := &pushWriter{client: c, s: s, l: l}
	if r := s.Rung(); r != push.Native {
		w.close()
		return nil, fmt.Errorf("bench: the session is of rung %v, not native", r)
	}
	return w, nil
}

func (w *pushWriter) write(p []byte) error {
	w.rec = append(binary.BigEndian.AppendUint64(w.rec[:0], w.off), p...)
	if w.off += uint64(len(p)); w.off+uint64(len(p)) > uint64(ringSize) {
		w.off = 0
	}
	if _, err := w.s.Append(context.Background(), w.rec); err != nil {
		return err
	}
	w.l.records.Add(1)
	return nil
}

func (w *pushWriter) close() {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	_ = w.s.Close(ctx) // what was acknowledged is in the log
	w.Close()          //nolint:errcheck // as with nfsWriter
}
