package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
)

var (
	guest = flag.String("guest", "", "run.sh of conformance/linux: TestLinux boots a Linux client with it")
	veth  = flag.String("veth", "", "veth.ko of the guest's kernel")
)

// TestLinux kills servers under two of the Linux kernel's clients, which know one address. Servers and clients are in the
// guest, because a server of locks calls its clients; the database is here.
func TestLinux(t *testing.T) {
	if *guest == "" {
		t.Skip("skipped: it boots a virtual machine; give -guest and -veth")
	}
	uri := engines.Postgres(t)
	engines.Format(t, uri, "file", "/tmp/objects/") // in the guest
	u, err := url.Parse(uri)
	noErr(t, err)
	share := t.TempDir()
	for to, from := range map[string]string{"stagjfs": os.Args[0], "veth.ko": *veth} {
		b, err := os.ReadFile(from)
		noErr(t, err)
		noErr(t, os.WriteFile(filepath.Join(share, to), b, 0o755))
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), *guest, "-t", "1100", "-m", "2048", "-d", share,
		"-e", "DB=10.0.2.2:"+u.Port(), "-e", fmt.Sprint("KILLS=", *rounds), "testdata/guest.sh")
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
	noErr(t, cmd.Run())
	if strings.Contains(out.String(), "FAIL") {
		t.Error("see above")
	}
}

// asRelay makes this test program pass connections on: "FROM TO".
const asRelay = "STAGJFS_TEST_RELAY"

// relay passes the connections that it gets on, for ever.
func relay(what string) error {
	from, to, _ := strings.Cut(what, " ")
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go pass(c, to)
	}
}

func pass(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	go func() {
		defer s.Close()
		io.Copy(s, c)
	}()
	io.Copy(c, s)
}
