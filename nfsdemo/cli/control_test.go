package cli

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestControlLocks: the administrator sees all to whom a directory is exported, and how; who holds a lock, of which file, and
// takes it. One that is kicked loses its connection.
func TestControlLocks(t *testing.T) {
	localRPCBind(t)
	dir, state := t.TempDir(), t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	list := one(dir)
	for _, who := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "127.0.0.1"} {
		list[0].Clients = append(list[0].Clients, server.Client{Nets: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(who), 32)}, AnonUID: 7, Secure: true})
	}
	s := started(t, &serviceConfig{
		exports: list, state: state, tcp: "127.0.0.1:0", register: true, locks: locksAuto, config: new(transport.Config),
	})
	if c := s.srv.Config; c.Duplicates.Owner == nil || c.Limits.Memory >= transport.DefaultMemory {
		t.Errorf("with locks the transport is told nothing of users: owners %v, %d octets", c.Duplicates.Owner != nil, c.Limits.Memory)
	}
	c := must(transport.DialStream(t.Context(), "tcp", addrOf(s.tcp), nil))(t)
	defer c.Close() //nolint:errcheck // the server closes it
	call := func(prog, vers, proc uint32, args []byte) *xdr.Decoder {
		t.Helper()
		var reply rpc.Reply
		defer reply.Release()
		noErr(t, c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc, Cred: nfsclient.ProcessCred().Auth(), Args: args, MaxResults: 4096}, &reply))
		noErr(t, reply.Header.Err())
		d := xdr.NewDecoder(append([]byte(nil), reply.Results...))
		return &d
	}
	root := must(nfsclient.NewMounter(c, nfsclient.ProcessCred()).Mount(t.Context(), s.path))(t)
	var found nfs3.LookupRes
	noErr(t, xdr.Decode(call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcLookup), xdr.Encode(nil, &nfs3.LookupArgs{Dir: root, Name: "f"})), &found).Err())
	lock := func() lockd.Status {
		args := lockd.LockArgs{Exclusive: true, Lock: lockd.Lock{Caller: []byte("client\x1b7"), File: found.Handle, Owner: []byte("7"), ID: 7, Offset: 10, Len: 5}}
		var res lockd.Res
		noErr(t, lockd.Parse(call(lockd.NLMProgram, lockd.Version4, uint32(lockd.ProcLock), lockd.Append(nil, &args, lockd.Version4)), &res, lockd.Version4))
		return res.Status
	}
	if st := lock(); st != lockd.Granted {
		t.Fatal(st)
	}
	exports := func(args ...string) result {
		return command(t.Context(), "", append([]string{"exports", "--control", filepath.Join(state, "control")}, args...)...)
	}
	line := regexp.MustCompile(`(?m)^  127\.0\.0\.1 client\?7 process 7 exclusive octets 10-14 inode \d\d+ of ` + regexp.QuoteMeta(s.path) + `$`)
	if r := exports(); r.status != exitOK || !line.MatchString(r.stdout) || !strings.Contains(r.stdout, "\nlocks on\n") ||
		!strings.Contains(r.stdout, "\n  read-write, root_squash, anonuid=7 for 127.0.0.1/32\n") {
		t.Errorf("%+v", r)
	}
	if r := exports("--free-locks", "192.0.2.1"); r.status != exitFailed || !strings.Contains(r.stderr, "no client with the address or the name 192.0.2.1") {
		t.Errorf("%+v", r)
	}
	if r := exports("--free-locks", "127.0.0.1"); r.status != exitOK {
		t.Errorf("%+v", r)
	}
	if r := exports(); r.status != exitOK || line.MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	if st := lock(); st != lockd.Granted { // it may lock again
		t.Error(st)
	}
	if r := exports("--kick", "localhost"); r.status != exitOK || !strings.HasPrefix(r.stdout, "localhost: 1 connections closed, 1 mounts forgotten") {
		t.Errorf("%+v", r)
	}
	var reply rpc.Reply
	if err := c.Do(t.Context(), &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}, &reply); err == nil {
		t.Error("a connection that was kicked goes on")
	}
}
