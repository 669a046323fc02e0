package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// durable is memory that forgets nothing.
type durable []byte

func (m durable) Bytes() []byte          { return m }
func (m durable) Persist(int, int) error { return nil }
func (m durable) Close() error           { return nil }

// sayAllOpcodes records a session of two engines that uses each of the 18 opcodes, the Terminate last, and
// returns the STag of the responder's region.
func sayAllOpcodes(t *testing.T, file string, markers bool) region.STag {
	t.Helper()
	w := must(capture.Create(file))(t)
	a, b := rdmaptest.Pipe()
	cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit, Markers: markers, MULPDU: 1400}}
	x, y := rdmap.Client(w.TapClient(a), cfg), rdmap.Server(b, cfg)
	ctx := t.Context()
	shook := make(chan error, 1)
	go func() { shook <- y.Handshake(ctx) }()
	check(t, x.Handshake(ctx))
	check(t, <-shook)

	all := region.RemoteRead | region.RemoteWrite | region.Atomic | region.FlushPersistent | region.FlushVisible | region.Verify
	reg := must(y.Table().RegisterMemory(durable(make([]byte, 8192)), region.Options{Access: all}))(t)
	s := reg.STag()
	sayMessages(ctx, t, x, y)
	go y.Serve()
	sayRequests(ctx, t, x, s)
	check(t, x.Write(ctx, []byte("nobody's"), s, 8190)) // beyond the end: a Terminate
	if _, err := x.Recv(ctx); err == nil {
		t.Fatal("no Terminate")
	}
	<-x.Done()
	<-y.Done()
	check(t, w.Close())
	return s
}

// sayMessages sends the messages that are delivered: the four Sends and both kinds of Immediate Data.
func sayMessages(ctx context.Context, t *testing.T, x, y *rdmap.Conn) {
	t.Helper()
	var stags [2]region.STag
	for i := range stags {
		r := must(y.Register(make([]byte, 8), region.RemoteRead|region.RemoteInvalidate))(t)
		stags[i] = r.STag()
	}
	long := bytes.Repeat([]byte("stag"), 800) // 3 segments
	check(t, x.Post([]verbs.WR{
		{Op: verbs.OpSend, Body: long},
		{Op: verbs.OpSendSE, Body: []byte("solicited")},
		{Op: verbs.OpSendInvalidate, Body: []byte("invalidates"), STag: stags[0]},
		{Op: verbs.OpSendSEInvalidate, Body: []byte("both"), STag: stags[1]},
	}))
	check(t, x.SendImmediate(ctx, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, false))
	check(t, x.SendImmediate(ctx, [8]byte{8, 7, 6, 5, 4, 3, 2, 1}, true))
	for range 6 {
		_, err := y.Recv(ctx)
		check(t, err)
	}
}

// sayRequests sends the requests that are answered, and the push of the commit draft.
func sayRequests(ctx context.Context, t *testing.T, x *rdmap.Conn, s region.STag) {
	t.Helper()
	data := bytes.Repeat([]byte{0xab}, 4000)
	sum := rdmaptest.Castagnoli(data)
	var w rdmap.Waiter
	w.Reset()
	check(t, x.Post([]verbs.WR{
		{Op: verbs.OpWrite, STag: s, TO: 1024, Body: data},
		{Op: verbs.OpFlushRequest, STag: s, TO: 1024, Len: 4000, Flags: verbs.FlushPersistent},
		{Op: verbs.OpVerifyRequest, STag: s, TO: 1024, Len: 4000, Body: sum},
		{Op: verbs.OpAtomicWriteRequest, STag: s, Body: binary.BigEndian.AppendUint64(nil, 5024)},
		{Op: verbs.OpFlushRequest, STag: s, Len: 8, Flags: verbs.FlushPersistent | verbs.FlushVisible, Done: &w},
	}))
	check(t, x.Wait(ctx, &w))
	got, err := x.Verify(ctx, s, 1024, 64, nil)
	check(t, err)
	if want := rdmaptest.Castagnoli(data[:64]); !bytes.Equal(got, want) {
		t.Fatalf("Verify answered %x", got)
	}
	sink := make([]byte, 4000)
	check(t, x.Read(ctx, sink, s, 1024))
	if !bytes.Equal(sink, data) {
		t.Fatal("read other octets")
	}
	_, err = x.FetchAdd(ctx, s, 64, 5, 1<<63)
	check(t, err)
	_, err = x.CmpSwap(ctx, s, 64, 5, ^uint64(0), 7, ^uint64(0))
	check(t, err)
	_, err = x.Swap(ctx, s, 64, 9)
	check(t, err)
}

// allOpcodes is one more than the last of RFC 5040, RFC 7306 and the commit draft.
const allOpcodes = verbs.OpAtomicWriteResponse + 1

// saidOpcodes decodes a capture and returns the opcodes of the FPDUs by packet.
func saidOpcodes(t *testing.T, file string) map[int][]verbs.Opcode {
	t.Helper()
	f := must(os.Open(file))(t)
	defer f.Close()
	said := make(map[int][]verbs.Opcode)
	for ev, err := range decode.Events(f, &decode.Options{ULP: decode.ULPOpaque}) {
		check(t, err)
		if ev.Err != nil {
			t.Errorf("%v", ev)
		}
		if ev.RDMAP != nil {
			said[ev.Frame] = append(said[ev.Frame], ev.RDMAP.Op)
		}
	}
	return said
}

// TestAllOpcodes: our decoder finds each opcode, and nothing wrong with any.
func TestAllOpcodes(t *testing.T) {
	for _, markers := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "all.pcapng")
		sayAllOpcodes(t, file, markers)
		all := slices.Concat(slices.Collect(maps.Values(saidOpcodes(t, file)))...)
		for op := range allOpcodes {
			if !slices.Contains(all, op) {
				t.Errorf("markers %v: no %v", markers, op)
			}
		}
	}
}

// TestAllOpcodesTshark: tshark agrees about each FPDU, and with docs/wireshark/stag.lua it names and decodes
// them all.
func TestAllOpcodesTshark(t *testing.T) {
	t.Parallel()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed here (apt-get install tshark); CI has it")
	}
	file := filepath.Join(t.TempDir(), "all.pcapng")
	s := sayAllOpcodes(t, file, false)
	said := saidOpcodes(t, file)
	script := "lua_script:" + filepath.Join("..", "docs", "wireshark", "stag.lua")
	if !strings.Contains(runTshark(t, tshark, "-v"), "with Lua") {
		t.Skip("this tshark was built without Lua")
	}
	out := runTshark(t, tshark, "-X", script, "-r", file, "-T", "fields", "-Y", "iwarp_mpa.fpdu",
		"-e", "frame.number", "-e", "iwarp_rdma.opcode", "-e", "stag.opcode", "-e", "_ws.malformed")
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if len(rows) != len(said) {
		t.Errorf("tshark finds FPDUs in %d packets, we in %d", len(rows), len(said))
	}
	for _, row := range rows {
		col := strings.Split(row+"\t\t\t", "\t")
		frame, _ := strconv.Atoi(col[0])
		var low, ours []string
		for _, op := range said[frame] {
			low = append(low, fmt.Sprintf("0x%02x", uint8(op&0x0f))) // tshark looks at four bits
			if op >= verbs.OpImmediate {
				ours = append(ours, fmt.Sprintf("0x%02x", uint8(op)))
			}
		}
		if col[1] != strings.Join(low, ",") || col[2] != strings.Join(ours, ",") {
			t.Errorf("packet %d: tshark says %q, stag.lua %q; we %v", frame, col[1], col[2], said[frame])
		}
		// tshark takes an Atomic Write Response, which has no payload, for a Read Request.
		if col[3] != "" && !slices.Contains(said[frame], verbs.OpAtomicWriteResponse) {
			t.Errorf("tshark finds packet %d malformed: %v", frame, said[frame])
		}
	}
	testLuaFields(t, runTshark(t, tshark, "-X", script, "-r", file, "-O", "stag,iwarp_mpa"), s, said)
}

// testLuaFields looks for what was sent in the text of tshark with stag.lua.
func testLuaFields(t *testing.T, text string, s region.STag, said map[int][]verbs.Opcode) {
	t.Helper()
	sum := rdmaptest.Castagnoli(bytes.Repeat([]byte{0xab}, 4000))
	for want, times := range map[string]int{
		"(Good CRC32)":                                len(slices.Concat(slices.Collect(maps.Values(said))...)),
		"(Bad CRC32":                                  0,
		"Data: 0102030405060708":                      1,
		"Data: 00000000000013a0":                      1,
		"Hash: " + hex.EncodeToString(sum):            2,
		fmt.Sprintf("Target STag: 0x%08x", uint32(s)): 8,
		"Target tagged offset: 0x0000000000000400":    3,
		"= Persistent: True":                          2,
		"= Globally visible: True":                    1,
		"Verify Request, compare":                     1,
		"Atomic Request, Swap":                        1,
		"= Atomic operation: CmpSwap (2)":             1,
		"Mask: 0x8000000000000000":                    1,
		"Compare value: 0x0000000000000005":           1,
		"Value: 0x0000000000000007":                   2, // stored by CmpSwap, found by Swap
		"Request identifier: 3":                       2,
		"Message too short":                           0,
		"Largest ULPDU: 64768":                        2,
		"= Commit draft: True":                        2,
		"OpCode: Atomic Write Response (0x11)":        1,
		"Immediate Data with SE (0x09)":               1,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("tshark with stag.lua says %q %d times, want %d", want, n, times)
		}
	}
}

// TestKeyLogTshark: with the key log of crypto/tls, tshark decrypts a capture of a TLS connection.
func TestKeyLogTshark(t *testing.T) {
	t.Parallel()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed here (apt-get install tshark); CI has it")
	}
	file := filepath.Join(t.TempDir(), "tls.pcapng")
	w := must(capture.Create(file))(t)
	keys := must(os.Create(file + ".keys"))(t)
	defer keys.Close()
	srv := httptest.NewUnstartedServer(nil) // for its certificate
	srv.StartTLS()
	defer srv.Close()
	a, b := rdmaptest.Pipe()
	x := tls.Client(w.TapClient(a), &tls.Config{
		RootCAs:    srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		ServerName: "example.com", KeyLogWriter: keys,
	})
	y := tls.Server(b, srv.TLS)
	go func() {
		_, _ = io.WriteString(x, "octets in a tunnel")
		_ = x.Close()
	}()
	if text, err := io.ReadAll(y); err != nil || string(text) != "octets in a tunnel" {
		t.Fatalf("%q, %v", text, err)
	}
	_ = y.Close()
	check(t, w.Close())
	out := runTshark(t, tshark, "-r", file, "-d", "tcp.port==20049,tls", "-o", "tls.keylog_file:"+keys.Name(), "-q", "-z", "follow,tls,ascii,0")
	if !strings.Contains(out, "octets in a tunnel") {
		t.Errorf("tshark cannot decrypt:\n%s", out)
	}
}
