package main

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
)

func TestRpingExitStatus(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	taken := l.Addr().String()
	defer l.Close()
	checkExits(t, "rping", []exit{
		{"help", "--help", 0, ""},
		{"no command", "", 0, ""},
		{"server help", "server --help", 0, ""},
		{"client help", "client --help", 0, ""},
		{"unknown command", "sender", 2, `conformance: unexpected argument "sender": see conformance rping --help`},
		{"no address", "client", 2, "conformance: rping client wants the server's ADDRESS:PORT: see conformance rping client --help"},
		{"two addresses", "client a b", 2, `conformance: unexpected argument "b": see conformance rping client --help`},
		{"server with address", "server a", 2, `conformance: unexpected argument "a": see`},
		{"unknown flag", "client --color x", 2, "conformance: unknown flag: --color (see conformance rping client --help)"},
		{"size 0", "client --size 0 x", 2, "conformance: --size 0: want 1 to 65536"},
		{"size 65537", "client --size 65537 x", 2, "conformance: --size 65537: want 1 to 65536"},
		{"count", "client --count 0 x", 2, "conformance: --count 0: want 1 or more"},
		{"conns", "server --conns -1", 2, "conformance: --conns -1: want 0 or more"},
		{"listen on no address", "server --listen foo", 2, `conformance: --listen "foo" is not an address: write host:port, for example`},
		{"listen on no port", "server --listen 127.0.0.1:foo", 2, `conformance: --listen "127.0.0.1:foo" is not an address`},
		{"timeout", "server --timeout 0s", 2, "conformance: --timeout 0s: want more than 0"},
		{"crc", "client --no-crc --require-crc x", 2, "conformance: --no-crc and --require-crc exclude each other"},
		{"bad address", "client nowhere", 1, "conformance: nowhere: dial tcp: "},
		{"nobody answers", "client --timeout 50ms " + taken, 1, "conformance: " + taken + ": "},
		{"address in use", "server --listen " + taken, 1, "conformance: listen tcp "},
	})
}

// listening takes the first line of a server's stderr.
type listening chan string

func (l listening) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// addr waits for the server to listen and returns where: the port is one that it has chosen.
func (l listening) addr(t *testing.T) string {
	t.Helper()
	line := <-l
	_, addr, ok := strings.Cut(strings.TrimSpace(line), " server on ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	return addr
}

// TestRefused: where nobody listens, the client says what to do.
func TestRefused(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	status, _, stderr := runCommand(t, nil, "rping", "client", l.Addr().String())
	if status != 1 || !strings.HasSuffix(stderr, "connection refused: start the server, or give its port\n") {
		t.Errorf("%d %q", status, stderr)
	}
}

func TestRpingBothSides(t *testing.T) {
	for _, tt := range []struct {
		server, client string
		crc            string
		status         int
	}{
		{"", "--size 60000 --count 3", "on", 0},
		{"--no-crc", "--count 3", "on", 0},
		{"", "--no-crc --count 3", "on", 0},
		{"--no-crc", "--no-crc --count 3", "off", 0},
		{"--require-crc", "--require-crc --count 3", "on", 0},
	} {
		up, done := make(listening, 1), make(chan int, 1)
		var out strings.Builder
		go func() {
			args := append([]string{"rping", "server", "--json", "--conns", "1", "--listen", "127.0.0.1:0"}, strings.Fields(tt.server)...)
			done <- run(args, nil, &out, up)
		}()
		addr := up.addr(t)
		status, stdout, stderr := runCommand(t, nil, append([]string{"rping", "client", addr}, strings.Fields(tt.client)...)...)
		if want := "3 pings, MPA revision 2, CRC " + tt.crc + ": ok\n"; status != tt.status || stdout != want || stderr != "" {
			t.Errorf("%q %q: %d %q %q, want %q", tt.server, tt.client, status, stdout, stderr, want)
		}
		if status := <-done; status != 0 {
			t.Errorf("%q %q: server %d", tt.server, tt.client, status)
		}
		var got struct {
			Peer     string
			Pings    int
			CRC, End string
		}
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Pings != 3 || got.CRC != tt.crc || got.End != "ok" || got.Peer == "" {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}

// TestRpingWithoutCRC: --require-crc is a demand, on the side that makes it.
func TestRpingWithoutCRC(t *testing.T) {
	f := rpingFlags{requireCRC: true}
	if err := f.agreed(rdmap.ConnectionState{}); err == nil {
		t.Error("no CRC, no error")
	}
	if err := f.agreed(rdmap.ConnectionState{CRC: true}); err != nil {
		t.Error(err)
	}
}

// TestRpingWrongPeer: the client says what it has met.
func TestRpingWrongPeer(t *testing.T) {
	wait := make(chan struct{})
	defer close(wait)
	for _, tt := range []struct {
		name string
		peer func(net.Conn)
		want string
	}{
		{"ssh", func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n")); <-wait }, `a peer that does not speak iWARP: it says "SSH-2.0-OpenSSH_9.6\r\n"`},
		{"closes", func(c net.Conn) { _, _ = c.Read(make([]byte, 100)) }, "a peer that closes the connection when it gets an MPA Request"},
		{"silent", func(net.Conn) { <-wait }, "a peer that takes connections, but does not answer an MPA Request"},
		{"iWARP", func(c net.Conn) {
			p := rdmap.Server(c, nil)
			_ = p.Handshake(t.Context())
			<-wait
			p.Abort(nil)
		}, "an iWARP peer that does not answer pings"},
	} {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			tt.peer(c)
		}()
		var errs strings.Builder
		status := run([]string{"rping", "client", "--timeout", "2s", l.Addr().String()}, nil, io.Discard, &errs)
		if status != 1 || !strings.HasPrefix(errs.String(), "conformance: "+l.Addr().String()+": rping: met "+tt.want) {
			t.Errorf("%s: status %d, %s", tt.name, status, errs.String())
		}
	}
}

func TestVersion(t *testing.T) {
	var out strings.Builder
	if status := run([]string{"--version"}, nil, &out, io.Discard); status != 0 || !strings.HasPrefix(out.String(), "conformance version ") || len(strings.Fields(out.String())) < 3 {
		t.Errorf("status %d, %q", status, out.String())
	}
}
