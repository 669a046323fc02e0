package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// mustURL parses a URL that is known to be good.
func mustURL(t *testing.T, s string) *nfsclient.URL {
	t.Helper()
	u := must(nfsclient.ParseURL(s))(t)
	return u
}

func TestExplain(t *testing.T) {
	rdma, tcp := mustURL(t, "nfs+rdma://h/x"), mustURL(t, "nfs://h/x")
	op := func(op rpc.Op, err error) error { return &rpc.OpError{Op: op, Addr: "h:1", Err: err} }
	status := func(s nfs3.Status) error {
		return &fs.PathError{Op: "lookup", Path: "/x", Err: &nfsclient.StatusError{Proc: nfs3.ProcLookup, Status: s}}
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
		code int
	}{
		{"refused", &dialError{u: rdma, err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, "refused by h:20049: start the server", 1},
		{"not iWARP", &dialError{u: rdma, err: op(rpc.OpDial, io.ErrUnexpectedEOF)}, "no iWARP peer at h:20049: it closed the connection during the start-up: if this is not an iWARP port but NFS over TCP, use nfs://", 1},
		{"not TCP", &dialError{u: tcp, err: op(rpc.OpCall, io.EOF)}, "connection to h:1 lost: EOF: if this is an NFS/RDMA port, use nfs+rdma://", 1},
		{"silent", &dialError{u: tcp, err: op(rpc.OpCall, context.DeadlineExceeded)}, "no answer from h:2049 in time: check the host, the port and the firewall", 1},
		{"silent, says the system", &dialError{u: tcp, err: os.ErrDeadlineExceeded}, "no answer from h:2049 in time", 1},
		{"no host", &dialError{u: tcp, err: &net.DNSError{Name: "h", IsNotFound: true}}, `no such host "h"`, 1},
		{"unreachable", &dialError{u: tcp, err: syscall.ENETUNREACH}, "check the address", 1},
		{"export", &dialError{u: tcp, err: &nfsclient.ExportError{Path: "/x", Exports: []string{"/a", "/b"}}}, "/x is not exported; exported: /a, /b", 1},
		{"no exports", &dialError{u: tcp, err: &nfsclient.ExportError{Path: "/x"}}, "nothing is", 1},
		{"mount denied", &dialError{u: tcp, err: &nfsclient.MountError{Path: "/x", Status: mount3.ErrAcces}}, "permission denied (MNT answered MNT3ERR_ACCES): the server may not admit this host, or may require --reserved-port", 1},
		{"an export with TLS", &dialError{u: tcp, err: &fs.PathError{Op: "mount", Path: "/x", Err: status(nfs3.ErrAcces)}}, "the export may want TLS (--tls-ca", 1},
		{"mount gone", &dialError{u: tcp, err: &nfsclient.MountError{Path: "/x", Status: mount3.ErrNoEnt}}, "no such export (MNT answered MNT3ERR_NOENT)", 1},
		{"no MOUNT", &dialError{u: tcp, err: &nfsclient.MountServiceError{Host: "h", Err: errors.New("no")}}, "?mountport=N", 1},
		{"reserved port", &dialError{u: tcp, err: syscall.EACCES, reservedPort: true}, "--reserved-port needs privileges", 1},
		{"permission", status(nfs3.ErrAcces), "permission denied (LOOKUP answered NFS3ERR_ACCES): the server checks the user id", 1},
		{"local permission", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, "open /x: permission denied", 1},
		{"too long", status(nfs3.ErrNameTooLong), "file name too long", 1},
		{"lost", argErr("nfs://h/x", "/x", &fs.PathError{Op: "read", Path: "/x", Err: op(rpc.OpCall, syscall.ECONNRESET)}), "nfs://h/x: connection to h:1 lost: connection reset by peer", 1},
		{"lost for good", &fs.PathError{Op: "read", Path: "/x", Err: &rpc.OpError{Op: rpc.OpCall, Err: syscall.ECONNREFUSED}}, "/x: connection lost: connection refused", 1},
		{"a change lost", argErr("nfs://h/x", "/x", &rpc.OutcomeError{Prog: nfs3.Program, Proc: uint32(nfs3.ProcRemove), Err: op(rpc.OpCall, io.EOF)}), "nfs://h/x: connection to h:1 lost: EOF: the server may or may not have done it: look before you try again", 1},
		{"a question lost", argErr("nfs://h/x", "/x", &rpc.OutcomeError{Prog: nfs3.Program, Proc: uint32(nfs3.ProcRead), Err: op(rpc.OpCall, io.EOF)}), "nfs://h/x: connection to h:1 lost: EOF", 1},
		{"lost in a tree", &fs.PathError{Op: "read", Path: "/x", Err: op(rpc.OpCall, io.EOF)}, "/x: connection to h:1 lost: EOF", 1},
		{"port taken", op(rpc.OpListen, syscall.EADDRINUSE), "another server has this port", 1},
		{"low port", op(rpc.OpListen, syscall.EACCES), "ports below 1024 may need privileges", 1},
		{"usage", usagef("wants more"), "wants more", 2},
		{"URL", &nfsclient.URLError{URL: "x", Reason: "bad"}, "x: bad", 2},
		{"file of --config", fmt.Errorf("--config %w", &exports.Error{Where: "f", Why: "line 3: bad"}), "--config f: line 3: bad", 2},
		{"two lines", fmt.Errorf("a\nb"), "a; b", 1},
		{"setting", (&transport.Config{Credits: -1}).Check(), "Credits is -1, want 1 to 4096", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := explain(tt.err)
			if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want it to contain %q", got, tt.want)
			}
			if code := exitStatus(tt.err); code != tt.code {
				t.Errorf("status %d, want %d", code, tt.code)
			}
		})
	}
}

// TestExamples: every command shows how it is used.
func TestExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.Hidden && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no examples", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}
