package crash

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// Addr says where a server is: it names a file like that of serve --port-file, which exists only
// while clients may use the server.
type Addr string

// get returns the value of a key, and the whole text.
func (a Addr) get(key string) (value, text string, err error) {
	b, err := os.ReadFile(string(a))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k == key {
			return v, string(b), nil
		}
	}
	return "", "", fmt.Errorf("%s has no line for %s", string(a), key)
}

// Export returns the path of the export; it waits for the server.
func (a Addr) Export(ctx context.Context) (string, error) {
	for {
		if v, _, err := a.get("EXPORT"); err == nil {
			return v, nil
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
}

// dial connects to the address with the key, and returns which life of the server is there. It reads the file
// again afterwards, because another process may have got the port meanwhile.
func (a Addr) dial(ctx context.Context, key string) (conn net.Conn, life string, err error) {
	at, text, err := a.get(key)
	if err != nil {
		return nil, "", err
	}
	if life, _, err = a.get("PID"); err != nil {
		return nil, "", err
	}
	if conn, err = new(net.Dialer).DialContext(ctx, "tcp", at); err != nil {
		return nil, "", err
	}
	if _, now, err := a.get(key); err != nil || now != text {
		conn.Close()
		return nil, "", fmt.Errorf("%s has changed", string(a))
	}
	return conn, life, nil
}

// pause waits between two attempts.
func pause(ctx context.Context) error {
	select {
	case <-time.After(3 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cred returns the identity of a worker: machines with different names at the same address.
func cred(machine uint16) xdr.Auth {
	c := xdr.SysCred{MachineName: fmt.Sprintf("m%d", machine), UID: uint32(max(os.Getuid(), 0)), GID: uint32(max(os.Getgid(), 0))}
	return c.Auth()
}

// Caller sends the calls of one worker until they are answered.
type Caller interface {
	// do sends a call and returns the results, including the data, whatever happens to the
	// connection meanwhile. With an XID of 0 the Caller chooses one.
	do(ctx context.Context, xid, prog uint32, m *message) ([]byte, error)
	// dials returns how many connections were made.
	dials() int
	// life is that of the server at the other end of the last connection.
	life() string
	// names reports whether the Caller uses the XIDs that it is given.
	names() bool
	// Close ends the connection.
	Close() error
}

// root mounts the export.
func root(ctx context.Context, c Caller, xid uint32, export string) ([]byte, error) {
	args := mount3.PathArgs{Path: export}
	raw, err := c.do(ctx, xid, mount3.Program, &message{proc: nfs3.Proc(mount3.ProcMnt), args: xdr.Encode(nil, &args)})
	if err != nil {
		return nil, err
	}
	var res mount3.MountRes
	d := xdr.NewDecoder(raw)
	if err := xdr.Decode(&d, &res).Err(); err != nil {
		return nil, err
	}
	if res.Status != mount3.OK {
		return nil, res.Status
	}
	return append([]byte(nil), res.Handle...), nil
}
