package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var guest = flag.String("guest", "", "run.sh of conformance/linux: TestLinux boots a Linux client with it")

// TestLinux kills servers under the Linux kernel's client, which knows one address.
func TestLinux(t *testing.T) {
	if *guest == "" {
		t.Skip("skipped: it boots a virtual machine; give -guest")
	}
	uri := newVolume(t)
	servers := []*server{start(t, uri, "--mount-listen", "127.0.0.1:0"), start(t, uri, "--mount-listen", "127.0.0.1:0")}
	share := t.TempDir()
	cmd := exec.Command(*guest, "-t", "900", "-d", share,
		"-e", "PORT="+relay(t, func(i int) string { return servers[i%2].addr }), "-e", "MOUNTPORT="+relay(t, func(i int) string { return servers[i%2].mount }),
		"-e", fmt.Sprint("KILLS=", *rounds), "testdata/guest.sh")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	rnd := rand.New(rand.NewPCG(3, 4))
	mounted := func() bool { _, err := os.Stat(filepath.Join(share, "mounted")); return err == nil }
	for i := 0; i < *rounds; {
		select {
		case err := <-ended:
			t.Fatalf("the guest has ended after %d kills: %v", i, err)
		case <-time.After(time.Duration(500+rnd.IntN(1500)) * time.Millisecond):
		}
		if !mounted() {
			continue
		}
		s := servers[i%2]
		s.kill()
		s.restart()
		i++
		if err := os.WriteFile(filepath.Join(share, "kills"), fmt.Append(nil, i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "FAIL") {
		t.Error("see above")
	}
}

// relay is a service address: it passes connections on to the first server that answers, and returns its port.
func relay(t *testing.T, addr func(i int) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pass(c, addr)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func pass(c net.Conn, addr func(i int) string) {
	defer c.Close()
	for i := range 2 {
		s, err := net.Dial("tcp", addr(i))
		if err != nil {
			continue
		}
		defer s.Close()
		go func() {
			defer s.Close()
			io.Copy(s, c)
		}()
		io.Copy(c, s)
		return
	}
}
