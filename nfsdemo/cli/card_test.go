package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"go.uber.org/zap"
)

// cardNet is a network of cards in this process.
type cardNet struct {
	from net.IP // of those that connect
	mu   sync.Mutex
	at   map[string]*rdmaptest.DeviceListener
}

func newCardNet(from string) *cardNet {
	return &cardNet{from: net.ParseIP(from), at: make(map[string]*rdmaptest.DeviceListener)}
}

func (n *cardNet) card() *Card {
	return &Card{
		Program: "stagcard",
		Listen: func(_ context.Context, addr string) (net.Listener, error) {
			a, err := net.ResolveTCPAddr("tcp", addr)
			if err != nil {
				return nil, err
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.at[addr] = rdmaptest.Card{Windows: true}.Listen(a)
			return n.at[addr], nil
		},
		Dial: func(_ context.Context, addr string) (net.Conn, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if l := n.at[addr]; l != nil {
				return l.Dial(&net.TCPAddr{IP: n.from, Port: 700})
			}
			return nil, &net.OpError{Op: "dial", Net: "rdma", Err: errors.New("no RDMA device reaches this address: rdma link")}
		},
	}
}

// command runs a command of stagcard.
func (n *cardNet) command(t *testing.T, args ...string) result {
	var out, errs bytes.Buffer
	a := &app{card: n.card(), stdin: strings.NewReader(""), stdout: &out, stderr: &errs, hard: t.Context()}
	status := a.run(t.Context(), args)
	return result{status, out.String(), errs.String()}
}

const cardAddr = "192.0.2.5:20049"

// TestCard: the commands work over cards, and files that they copy are whole.
func TestCard(t *testing.T) {
	n := newCardNet("192.0.2.9")
	const at = "127.0.0.1:20049" // a name; but the doctor looks for MOUNT there, over TCP
	s := started(t, &serviceConfig{
		memory: true, exports: one("/x"), rdma: at, tcp: "127.0.0.1:0", config: &transport.Config{}, sockets: &sockets{card: n.card()},
	})
	var said bytes.Buffer
	noErr(t, (&app{card: n.card(), stdout: &said}).announce(s, new(serveFlags)))
	if text := said.String(); !strings.Contains(text, "vers=3,rdma") || strings.Contains(text, "iWARP") || strings.Contains(text, "CRC") {
		t.Errorf("a server over cards says\n%s", text)
	}
	here := filepath.Join(t.TempDir(), "here")
	want := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	noErr(t, os.WriteFile(here, want, 0o600))
	there := "nfs+rdma://" + at + "/x/there"
	_, mount, _ := net.SplitHostPort(addrOf(s.tcp))
	for _, args := range [][]string{
		{"cp", "-q", here, there}, {"ls", "-l", "nfs+rdma://" + at + "/x"}, {"cp", "-q", there, here + "2"}, {"doctor", "nfs+rdma://" + at + "/x?mountport=" + mount},
	} {
		if r := n.command(t, args...); r.status != 0 {
			t.Fatalf("%v: status %d, %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	if got := must(os.ReadFile(here + "2"))(t); !bytes.Equal(got, want) {
		t.Errorf("%d octets came back, not the %d", len(got), len(want))
	}
	if st := s.srv.Stats(); st.OctetsRead == 0 || st.OctetsWritten == 0 {
		t.Errorf("no chunks: %+v", st)
	}
}

// TestCardOwners: of a client on this machine nobody knows who it is, so that it is refused where that matters; those of other
// machines are believed, as over iWARP.
func TestCardOwners(t *testing.T) {
	for from, served := range map[string]bool{"127.0.0.1": false, "192.0.2.9": true} {
		n := newCardNet(from)
		started(t, &serviceConfig{exports: one(t.TempDir()), rdma: cardAddr, config: &transport.Config{}, sockets: &sockets{card: n.card()}})
		r := n.command(t, "ls", "--reconnect", "0", "nfs+rdma://"+cardAddr+"/")
		if !served && !strings.Contains(r.stderr, "refused the connection") || served && strings.Contains(r.stderr, "refused the connection") {
			t.Errorf("from %s: status %d, %s", from, r.status, r.stderr)
		}
	}
}

// TestCardProxy: a client of NFS/TCP reaches a server of NFS/TCP through two proxies, with cards between them.
func TestCardProxy(t *testing.T) {
	n := newCardNet("192.0.2.9")
	s := started(t, &serviceConfig{memory: true, exports: one("/x"), tcp: "127.0.0.1:0", config: &transport.Config{}})
	startProxyOver(t, n.card(), "--to", "nfs://"+addrOf(s.tcp), "--listen", cardAddr)
	ports, _ := startProxyOver(t, n.card(), "--to", "nfs+rdma://"+cardAddr, "--listen", "127.0.0.1:0")
	here := filepath.Join(t.TempDir(), "here")
	want := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	noErr(t, os.WriteFile(here, want, 0o600))
	for _, args := range [][]string{
		{"cp", "-q", here, "nfs://" + ports["TCP"] + "/x/there"},
		{"cp", "-q", "nfs+rdma://" + cardAddr + "/x/there", here + "2"},
		{"cp", "-q", "nfs://" + ports["TCP"] + "/x/there", here + "3"},
	} {
		if r := n.command(t, args...); r.status != 0 {
			t.Fatalf("%v: status %d, %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	for _, name := range []string{here + "2", here + "3"} {
		if got := must(os.ReadFile(name))(t); !bytes.Equal(got, want) {
			t.Errorf("%s: %d octets came back, not the %d", name, len(got), len(want))
		}
	}
}

// TestCardMemory: what the device has of its own is not for calls, and a limit that leaves them too little is refused.
func TestCardMemory(t *testing.T) {
	card := func(asked int64) *Card {
		c := newCardNet("192.0.2.9").card()
		c.Memory, c.MinMemory = &asked, 8<<20
		return c
	}
	for _, tt := range []struct{ limit, asked, device, calls int64 }{
		{0, 0, 128 << 20, 192 << 20},
		{1 << 30, 0, 128 << 20, 960 << 20},
		{64 << 20, 0, 32 << 20, 48 << 20},
		{6 << 20, 0, 8 << 20, 2 << 20},
		{64 << 20, 16 << 20, 16 << 20, 56 << 20},
	} {
		cfg, c := new(transport.Config), card(tt.asked)
		noErr(t, (&limitFlags{memory: tt.limit}).apply(cfg, c))
		if cfg.Limits.Memory != tt.calls || *c.Memory != tt.device {
			t.Errorf("%+v: %d for calls, %d for the device", tt, cfg.Limits.Memory, *c.Memory)
		}
	}
	for _, command := range []string{"serve --memory --export /x", "proxy --to nfs://127.0.0.1:2049"} {
		for flags, want := range map[string]string{
			"--memory-limit 5M":                     "--memory-limit 5.00 MiB: the device takes 4.00 MiB of it",
			"--memory-limit 5M --card-memory 8M":    "or lower --card-memory",
			"--card-memory 1":                       "for \"--card-memory\" flag: want 8M to 1024T, or 0",
			"--card-memory -8M":                     "for \"--card-memory\" flag: want 8M to 1024T, or 0",
			"--card-memory much":                    "for \"--card-memory\" flag: want octets, or a number with K, M, G or T",
			"--card-memory 9000000T":                "want 8M to 1024T, or 0",
			"--card-memory 128G --memory-limit 64G": "the device takes 64.0 GiB of it",
		} {
			var errs bytes.Buffer
			a := &app{card: card(0), stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, hard: t.Context()}
			status := a.run(t.Context(), strings.Fields(command+" --listen "+cardAddr+" "+flags))
			if status != exitUsage || !strings.Contains(errs.String(), want) {
				t.Errorf("%s %s: status %d, %s", command, flags, status, errs.String())
			}
		}
	}
}

// TestCardLog: a device says its news where the server says its own.
func TestCardLog(t *testing.T) {
	var device *zap.Logger
	c := newCardNet("192.0.2.9").card()
	c.Logger = &device
	cfg := &transport.Config{Logger: zap.NewExample()}
	noErr(t, new(limitFlags).apply(cfg, c))
	if device != cfg.Logger {
		t.Error("the device logs elsewhere")
	}
}

// TestCardFlags: what a card cannot do, and what nobody can, stagcard says in its own name.
func TestCardFlags(t *testing.T) {
	n := newCardNet("192.0.2.9")
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"serve --memory --export /x", exitUsage, "--listen"},
		{"serve --memory --export /x --listen 192.0.2.5", exitUsage, "write host:port"},
		{"serve --listen " + cardAddr, exitUsage, "serve needs --export DIR, --exports FILE or --config FILE: see serve --help"},
		{"serve --memory --export /x --push-log d", exitUsage, "unknown flag: --push-log"},
		{"proxy --to nfs://127.0.0.1:2049", exitUsage, "an address of an RDMA device"},
		{"proxy --listen " + cardAddr, exitUsage, "proxy needs --to URL: see proxy --help"},
		{"proxy --to 127.0.0.1 --listen " + cardAddr, exitUsage, "nfs://"},
		{"proxy --to nfs://127.0.0.1:2049 --listen " + cardAddr + " --crc on", exitUsage, "unknown flag: --crc"},
		{"ls --pcap x nfs+rdma://192.0.2.5/", exitUsage, "tcpdump"},
		{"ls --crc on nfs+rdma://192.0.2.5/", exitUsage, "unknown flag: --crc"},
		{"ls nfs+rdma://192.0.2.5/", exitFailed, "stagcard: nfs+rdma://192.0.2.5/: no RDMA device reaches this address: rdma link\n"},
		{"cp a b", exitUsage, "no argument is a URL"},
		{"cp nfs+rdma://192.0.2.5/x", exitUsage, "see stagcard cp --help"},
		{"cp nfs+rdma://192.0.2.5/x there", exitFailed, "rdma link"},
		{"doctor", exitUsage, "see stagcard doctor --help"},
		{"doctor --pcap x 192.0.2.5", exitUsage, "tcpdump"},
		{"doctor nfs+rdma://192.0.2.5/", exitFailed, ""},
		{"demo", exitUsage, "unknown command"},
	} {
		r := n.command(t, strings.Fields(tt.args)...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%s: status %d, %s", tt.args, r.status, r.stderr)
		}
	}
	var errs bytes.Buffer
	c := n.card()
	c.Dial = func(context.Context, string) (net.Conn, error) { return nil, io.EOF }
	a := &app{card: c, stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, hard: t.Context()}
	if status := a.run(t.Context(), []string{"ls", "nfs+rdma://192.0.2.5/"}); status != exitFailed || !strings.Contains(errs.String(), "no RDMA peer at 192.0.2.5:20049") || strings.Contains(errs.String(), "iWARP") {
		t.Errorf("status %d, %s", status, errs.String())
	}
	var out bytes.Buffer
	a.stdout = &out
	c.Dial = func(context.Context, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "rdma", Err: context.DeadlineExceeded}
	}
	if status := a.run(t.Context(), []string{"doctor", "nfs+rdma://192.0.2.5/"}); status != exitFailed || !strings.Contains(out.String(), "the host is down") {
		t.Errorf("status %d, %s", status, out.String())
	}
	if r := n.command(t, "doctor", "nfs+rdma://192.0.2.5/"); !strings.Contains(r.stdout, "no RDMA device reaches this address") || strings.Contains(r.stdout, "check the address") {
		t.Error(r.stdout)
	}
	for _, c := range (&app{card: n.card()}).cardRoot().Commands() {
		for _, text := range []string{c.Long, c.Example} {
			if strings.Contains(text, "nfsdemo ") || strings.Contains(text, "iWARP") {
				t.Errorf("%s speaks of another program:\n%s", c.Name(), text)
			}
		}
	}
}
