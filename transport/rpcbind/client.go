package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// ErrNotRegistered: rpcbind knows no such service.
var ErrNotRegistered = errors.New("rpcbind: not registered")

// ErrRefused: rpcbind did not accept a registration, or did not remove one, because another service has
// the place, or because the caller may not do so.
var ErrRefused = errors.New("rpcbind: refused")

// LocalSockets are the sockets on which rpcbind listens for callers on this machine. Only these may
// register services.
var LocalSockets = []string{"/run/rpcbind.sock", "/var/run/rpcbind.sock"}

// maxResults limits a reply, in octets: a dump may be long.
const maxResults = 64 << 10

// maxEntries limits the entries of a dump that are looked at.
const maxEntries = 4096

// GetAddr asks the rpcbind at the other end of c for the address of a service. An unspecified host
// in it means the host of rpcbind. c may use any transport, including RDMA. Errors wrap
// ErrNotRegistered, or are those of c.Do and of xdr.
func GetAddr(ctx context.Context, c rpc.Caller, prog, vers uint32, netid string) (netip.AddrPort, error) {
	e := Entry{Prog: prog, Vers: vers, Netid: netid}
	var addr string
	err := call(ctx, c, procGetAddr, &e, func(d *xdr.Decoder) { addr = d.String(maxString) })
	if err != nil {
		return netip.AddrPort{}, err
	}
	if addr == "" {
		// Linux's rpcbind also gives this answer for netids that are not in /etc/netconfig, such as
		// "rdma"; but it lists them.
		if addr, err = find(ctx, c, &e); err != nil {
			return netip.AddrPort{}, err
		}
	}
	return parseUniversal(addr)
}

// find looks for the service in the list of all services.
func find(ctx context.Context, c rpc.Caller, want *Entry) (string, error) {
	all, err := dump(ctx, c)
	if err != nil {
		return "", err
	}
	for _, e := range all {
		if e.Prog == want.Prog && e.Vers == want.Vers && e.Netid == want.Netid {
			return e.Addr, nil
		}
	}
	return "", fmt.Errorf("program %d version %d over %s: %w", want.Prog, want.Vers, want.Netid, ErrNotRegistered)
}

// dump asks for the list of all services.
func dump(ctx context.Context, c rpc.Caller) (all []Entry, err error) {
	err = call(ctx, c, procDump, nil, func(d *xdr.Decoder) {
		for len(all) < maxEntries && d.Bool() {
			var e Entry
			if e.parse(d); d.Err() != nil {
				return
			}
			all = append(all, e)
		}
	})
	return all, err
}

// LookupAt asks the rpcbind at addr, host:port, over TCP, and returns host:port of the service.
func LookupAt(ctx context.Context, addr string, prog, vers uint32, netid string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	c, err := transport.DialStream(ctx, "tcp", addr, nil)
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	at, err := GetAddr(ctx, c, prog, vers, netid)
	if err != nil {
		return "", err
	}
	if !at.Addr().IsUnspecified() {
		host = at.Addr().String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(at.Port()))), nil
}

// Register announces services to the rpcbind of this machine. If that refuses an entry, the error wraps
// ErrRefused, and the entries before it stay registered.
func Register(ctx context.Context, entries ...Entry) error {
	return local(ctx, procSet, entries)
}

// Unregister withdraws services of this process's user.
func Unregister(ctx context.Context, entries ...Entry) error {
	return local(ctx, procUnset, entries)
}

// Registered asks the rpcbind of this machine, on its local socket, for the address of a
// service.
func Registered(ctx context.Context, prog, vers uint32, netid string) (netip.AddrPort, error) {
	c, err := dialLocal(ctx)
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	return GetAddr(ctx, c, prog, vers, netid)
}

// List asks the rpcbind of this machine, on its local socket, for all services: the first 4096.
func List(ctx context.Context) ([]Entry, error) {
	c, err := dialLocal(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	return dump(ctx, c)
}

// local makes calls on the local socket.
func local(ctx context.Context, proc uint32, entries []Entry) error {
	c, err := dialLocal(ctx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the answers are there
	for i := range entries {
		e := &entries[i]
		ok := false
		if err := call(ctx, c, proc, e, func(d *xdr.Decoder) { ok = d.Bool() }); err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("program %d version %d over %s: %w", e.Prog, e.Vers, e.Netid, ErrRefused)
		}
	}
	return nil
}

// dialLocal connects to the first socket of LocalSockets that answers.
func dialLocal(ctx context.Context) (c *transport.StreamClient, err error) {
	err = errors.New("rpcbind: LocalSockets is empty")
	for _, name := range LocalSockets {
		if c, err = transport.DialStream(ctx, "unix", name, nil); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// call makes one call and decodes its results. If the server has only version 3, call repeats the
// call with that.
func call(ctx context.Context, c rpc.Caller, proc uint32, e *Entry, results func(*xdr.Decoder)) error {
	var args []byte
	if e != nil {
		args = e.appendTo(nil)
	}
	var reply rpc.Reply
	defer reply.Release()
	for _, vers := range [...]uint32{version4, version3} {
		asks := proc != procSet && proc != procUnset // the others answer differently the second time
		call := &rpc.Call{Prog: Program, Vers: vers, Proc: proc, Args: args, MaxResults: maxResults, Repeatable: asks}
		if err := c.Do(ctx, call, &reply); err != nil {
			return err
		}
		if reply.Header.Accept != xdr.ProgMismatch || reply.Header.Denied {
			break
		}
	}
	if err := reply.Header.Err(); err != nil {
		return err
	}
	d := xdr.NewDecoder(reply.Results)
	results(&d)
	return d.Err()
}
