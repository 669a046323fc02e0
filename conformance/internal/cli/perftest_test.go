package cli

import (
	"net"
	"strings"
	"testing"
)

func TestPerftestExitStatus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	defer l.Close()
	checkExits(t, "perftest", []exit{
		{"help", "--help", 0, ""},
		{"no command", "", 0, ""},
		{"server help", "server --help", 0, ""},
		{"client help", "client --help", 0, ""},
		{"unknown command", "sender", 2, `conformance: unexpected argument "sender": see conformance perftest --help`},
		{"no address", "client read_bw", 2, "conformance: perftest client wants the test and the server's ADDRESS:PORT: see"},
		{"server with address", "server a", 2, `conformance: unexpected argument "a": see`},
		{"unknown test", "client atomic_bw x", 2, `conformance: no test "atomic_bw": want write_bw, read_bw or send_lat`},
		{"size 0", "client write_bw --size 0 x", 2, "conformance: --size 0: want 1 to 65536"},
		{"count", "client write_bw --count 0 x", 2, "conformance: --count 0: want 1 or more"},
		{"tests", "server --tests -1", 2, "conformance: --tests -1: want 0 or more"},
		{"listen on no address", "server --listen foo", 2, `conformance: --listen "foo" is not an address: write host:port, for example`},
		{"timeout", "server --timeout 0s", 2, "conformance: --timeout 0s: want more than 0"},
		{"crc", "client --no-crc --require-crc write_bw x", 2, "conformance: --no-crc and --require-crc exclude each other"},
		{"bad address", "client send_lat nowhere", 1, "conformance: nowhere: dial tcp: "},
		{"nobody answers", "client send_lat --timeout 50ms " + taken, 1, "conformance: " + taken + ": "},
		{"address in use", "server --listen " + taken, 1, "conformance: listen tcp "},
	})
}

func TestPerftestBothSides(t *testing.T) {
	up, done := make(listening, 1), make(chan int, 1)
	var out strings.Builder
	go func() {
		done <- Main([]string{"perftest", "server", "--listen", "127.0.0.1:0", "--tests", "3", "--no-crc"}, nil, &out, up)
	}()
	addr := up.addr(t)
	for _, tt := range []struct{ test, flag, want string }{
		{"write_bw", "--no-crc", "write_bw: 5 times 100 octets, CRC off: ok\n"},
		{"read_bw", "--require-crc", "read_bw: 5 times 100 octets, CRC on: ok\n"},
		{"send_lat", "--no-crc", "send_lat: 5 times 100 octets, CRC off: ok\n"},
	} {
		status, stdout, stderr := run(t, nil, "perftest", "client", tt.flag, "--size", "100", "--count", "5", tt.test, addr)
		if status != 0 || stdout != tt.want {
			t.Errorf("%d %q %s", status, stdout, stderr)
		}
	}
	if status := <-done; status != 0 {
		t.Errorf("server %d", status)
	}
	for _, want := range []string{
		": 0 Sends, 500 octets written, 0 read, CRC off: ok\n",
		": 0 Sends, 100 octets written, 500 read, CRC on: ok\n",
		": 5 Sends, 0 octets written, 0 read, CRC off: ok\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
