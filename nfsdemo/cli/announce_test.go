package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

func TestMountLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    cli.ReadyJSON
		want string
	}{
		{
			"RDMA",
			cli.ReadyJSON{Export: "/srv/data", RDMA: "127.0.0.1:20049", Mount: "127.0.0.1:20048"},
			"mount -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,nolock 127.0.0.1:/srv/data /mnt",
		},
		{
			"MOUNT on the TCP port",
			cli.ReadyJSON{Export: "/d", RDMA: "10.0.0.1:1", TCP: "10.0.0.1:2"},
			"mount -t nfs -o vers=3,rdma,port=1,mountport=2,mountproto=tcp,nolock 10.0.0.1:/d /mnt",
		},
		{
			"TCP",
			cli.ReadyJSON{Export: "/d", TCP: "[::1]:2"},
			"mount -t nfs -o vers=3,proto=tcp,port=2,mountport=2,mountproto=tcp,nolock [::1]:/d /mnt",
		},
		{
			"quoted",
			cli.ReadyJSON{Export: "/it's mine", RDMA: "1.2.3.4:1", Mount: "1.2.3.4:2"},
			`mount -t nfs -o vers=3,rdma,port=1,mountport=2,mountproto=tcp,nolock '1.2.3.4:/it'\''s mine' /mnt`,
		},
		{"nowhere to ask", cli.ReadyJSON{Export: "/d", RDMA: "1.2.3.4:1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.MountLine(&tt.r, &server.Export{}); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "odd", "fileserver:1"} {
		if got := cli.Reachable(addr); got != addr {
			t.Errorf("reachable(%q) = %q", addr, got)
		}
	}
	host := must(os.Hostname())(t)
	for _, addr := range []string{"0.0.0.0:1", "[::]:1"} {
		if got := cli.Reachable(addr); got != host+":1" {
			t.Errorf("reachable(%q) = %q, want %s:1", addr, got, host)
		}
	}
}

func TestPortFileIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ports")
	noErr(t, cli.WritePortFile(name, &cli.ReadyJSON{Export: "/d", RDMA: "a:1", PID: 7}))
	got, err := os.ReadFile(name)
	if err != nil || string(got) != "EXPORT=/d\nRDMA=a:1\nMOUNT=\nTCP=\nPID=7\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if list, _ := os.ReadDir(filepath.Dir(name)); len(list) != 1 {
		t.Error("the temporary file is left")
	}
	if err := cli.WritePortFile(filepath.Join(name, "x"), &cli.ReadyJSON{}); err == nil || !strings.HasPrefix(err.Error(), "--port-file") {
		t.Errorf("got %v", err)
	}
}
