package decode_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestEveryFrame: every frame of every capture decodes to the last octet, except those that
// testdata/illegal-frames.tsv lists with a reason; and those must say what is wrong with them.
func TestEveryFrame(t *testing.T) {
	illegal := readTable(t, "../../testdata/illegal-frames.tsv", 4)
	for _, file := range captures(t) {
		name := filepath.Base(file)
		decodeFile(t, file, func(ev *decode.Event) {
			if ev.Err == nil {
				return
			}
			r := row{name, strconv.Itoa(ev.Frame)}
			want, ok := illegal[r]
			if !ok || !strings.HasPrefix(ev.Err.Error(), want[0]) {
				t.Errorf("%s: want %q: %v", name, want, ev)
			}
			delete(illegal, r)
		})
	}
	for r := range illegal {
		t.Errorf("nothing wrong with %v", r)
	}
}

// TestEveryOctet: the events of a direction cover its stream without gap or overlap.
func TestEveryOctet(t *testing.T) {
	for _, file := range captures(t) {
		next := make(map[*decode.ConnInfo]*[2]uint64)
		decodeFile(t, file, func(ev *decode.Event) {
			n := next[ev.Conn]
			if n == nil {
				n = new([2]uint64)
				next[ev.Conn] = n
			}
			if ev.Offset != n[ev.Dir] || ev.Len != len(ev.Raw) {
				t.Errorf("%s: at octet %d, the event before ended at %d: %v", file, ev.Offset, n[ev.Dir], ev)
			}
			n[ev.Dir] += uint64(ev.Len)
			if ev.First > ev.Frame || ev.First == 0 {
				t.Errorf("%s: begins in packet %d: %v", file, ev.First, ev)
			}
		})
	}
}

// TestEveryRPC: every NFS and MOUNT message is decoded to its last octet, including chunks, every reply has
// its call, and every call with chunks was seen whole.
func TestEveryRPC(t *testing.T) {
	messages, chunked := 0, 0
	for _, file := range captures(t) {
		if name := filepath.Base(file); name == "d-mpa-bad.pcap" || name == "g-mpareply.pcap" {
			continue // see illegal-frames.tsv
		}
		decodeFile(t, file, func(ev *decode.Event) {
			r := ev.RPC
			if r == nil {
				return
			}
			messages++
			if r.Err != nil || r.IsReply && r.CallFrame == 0 || r.Name == "" {
				t.Errorf("%s: %v: %v", file, ev, r.Err)
			}
			ours := r.Prog == nfs3.Program && r.Vers == nfs3.Version || r.Prog == mount3.Program
			if ours && r.Whole && r.Message == nil && (!r.IsReply || r.Success()) {
				t.Errorf("%s: not decoded: %v", file, ev)
			}
			if r.Pulled {
				chunked++
			}
			if ours && !r.Whole && (r.IsReply || len(ev.Header.Read) == 0) {
				t.Errorf("%s: not whole: %v", file, ev)
			}
		})
	}
	if messages < 400 || chunked != 9 {
		t.Errorf("%d RPC messages, %d calls by Read chunks", messages, chunked)
	}
}

// TestPeculiarities checks a few things that the index of the captures says about Linux.
func TestPeculiarities(t *testing.T) {
	pads, swapped, good, invalidates := make(map[string]int), 0, 0, 0
	for _, file := range captures(t) {
		decodeFile(t, file, func(ev *decode.Event) {
			if ev.FPDU == nil {
				return
			}
			if strings.Trim(string(ev.FPDU.Pad), "\x00") != "" {
				pads[filepath.Base(file)]++
			}
			if ev.FPDU.CRCState == decode.CRCGood && filepath.Base(file) == "f-nfs3-crc-ops.pcap" {
				good++
			}
			if ev.Message != nil && ev.Message.Terminate != nil && strings.Contains(ev.Message.Terminate.String(), "siw") {
				swapped++
			}
			if ev.RDMAP != nil && ev.RDMAP.Op.Invalidates() {
				invalidates++
			}
		})
	}
	if pads["b-nfs3-ops.pcap"] != 1 || pads["e-perftest.pcap"] != 8 || pads["a-rping.pcap"] != 0 {
		t.Errorf("FPDUs with a pad that is not zero: %v", pads)
	}
	if good != 196 {
		t.Errorf("%d good CRCs in f-nfs3-crc-ops", good)
	}
	if swapped == 0 || invalidates == 0 {
		t.Errorf("%d Terminates in siw's order, %d Sends with Invalidate", swapped, invalidates)
	}
}
