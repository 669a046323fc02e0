package decode_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// written writes a capture and returns its events as lines, without packet numbers.
func written(t *testing.T, opt *decode.Options, say func(w *capture.Writer)) []string {
	t.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	say(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for ev, err := range decode.Events(&file, opt) {
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(strings.TrimLeft(ev.String(), " "), " ")
		lines = append(lines, line)
	}
	return lines
}

// converse sends a startup and one Send.
func converse(t *testing.T, c *capture.Conn) {
	t.Helper()
	for _, p := range append(startup(true), piece{dir: decode.FromOpener, b: unhex(t, helloSend)}) {
		c.Write(capture.Dir(p.dir), p.b)
	}
}

const helloSend = "001741430000000000000000000000010000000048454c4c4f000000ccc19375"

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func TestIPv6(t *testing.T) {
	got := written(t, nil, func(w *capture.Writer) {
		c := w.Conn(netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::2]:4711"))
		converse(t, c)
		c.Close()
	})
	equal(t, got, []string{
		"c1 > open [2001:db8::1]:1000 to [2001:db8::2]:4711",
		"c1 > MPA Request rev=1 flags=0x40(C) pdlength=0",
		"c1 < MPA Reply rev=1 flags=0x00() pdlength=0",
		"c1 > FPDU ulpdulength=23 crc=ok Send qn=0 msn=1 mo=0 len=5 last",
		"c1 > FIN",
		"c1 < FIN",
	})
}

// TestPortReuse: the same ends, twice; the second connection begins with a SYN of another number
// even if the end of the first is not in the capture.
func TestPortReuse(t *testing.T) {
	a, b := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:20049")
	got := written(t, nil, func(w *capture.Writer) {
		converse(t, w.Conn(a, b))
		converse(t, w.Conn(b, a)) // the other way round, so the numbers differ
		w.Conn(a, b).Close()
	})
	var ids []string
	for _, l := range got {
		id, _, _ := strings.Cut(l, " ")
		ids = append(ids, id)
	}
	if s := strings.Join(ids, " "); s != "c1 c1 c1 c1 c2 c2 c2 c2 c3 c3 c3" {
		t.Errorf("%s\n%s", s, strings.Join(got, "\n"))
	}
}

// TestMaxConns: the oldest connection is dropped to make room, and what it had begun is reported.
func TestMaxConns(t *testing.T) {
	got := written(t, &decode.Options{MaxConns: 1}, func(w *capture.Writer) {
		b := netip.MustParseAddrPort("192.0.2.2:20049")
		c1 := w.Conn(netip.MustParseAddrPort("192.0.2.1:1"), b)
		c1.Write(capture.ToServer, []byte("MPA ID Req"))
		w.Conn(netip.MustParseAddrPort("192.0.2.1:2"), b).Close()
	})
	equal(t, got, []string{
		"c1 > open 192.0.2.1:1 to 192.0.2.2:20049",
		"c1 > 10 octets not decoded !! incomplete frame at the end",
		"c2 > open 192.0.2.1:2 to 192.0.2.2:20049",
		"c2 > FIN",
		"c2 < FIN",
	})
}
