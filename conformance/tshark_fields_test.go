package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// fieldNames are the fields that are compared, by Wireshark's names.
var fieldNames = strings.Fields(`
iwarp_mpa.rev iwarp_mpa.marker_flag iwarp_mpa.crc_flag iwarp_mpa.rej_flag iwarp_mpa.pdlength
iwarp_mpa.ulpdulength iwarp_mpa.crc iwarp_mpa.crc_check
iwarp_ddp.tagged_flag iwarp_ddp.last_flag iwarp_ddp.dv iwarp_ddp.stag iwarp_ddp.tagged_offset
iwarp_ddp.qn iwarp_ddp.msn iwarp_ddp.mo
iwarp_rdma.version iwarp_rdma.opcode iwarp_rdma.inval_stag
iwarp_rdma.sinkstag iwarp_rdma.sinkto iwarp_rdma.rdmardsz iwarp_rdma.srcstag iwarp_rdma.srcto
iwarp_rdma.term_layer iwarp_rdma.atomic.opcode iwarp_rdma.atomic.request_identifier
iwarp_rdma.atomic.remote_stag iwarp_rdma.atomic.remote_tagged_offset
iwarp_rdma.atomic.original_request_identifier iwarp_rdma.atomic.original_remote_data_value
rpcordma.xid rpcordma.version rpcordma.flow_control rpcordma.msg_type rpcordma.reads_count rpcordma.writes_count
rpcordma.reply_count rpcordma.rdma_handle rpcordma.rdma_length rpcordma.rdma_offset rpcordma.position
rpcordma.errcode rpcordma.vers_low rpcordma.vers_high
rpc.xid rpc.msgtyp rpc.program rpc.programversion rpc.procedure
nfs.status3 nfs.opcode nfs.nfsstat4`)

// fields are the values of one frame, by name, in the order in which they occur.
type fields map[string][]uint64

func (f fields) add(name string, values ...uint64) { f[name] = append(f[name], values...) }

func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// ours returns the fields of an event.
func ours(ev *decode.Event) fields {
	f := make(fields)
	if s := ev.Startup; s != nil {
		f.add("iwarp_mpa.rev", uint64(s.Rev))
		f.add("iwarp_mpa.marker_flag", oneIf(s.Flags&0x80 != 0))
		f.add("iwarp_mpa.crc_flag", oneIf(s.Flags&0x40 != 0))
		f.add("iwarp_mpa.rej_flag", oneIf(s.Flags&0x20 != 0))
		f.add("iwarp_mpa.pdlength", uint64(s.PDLength))
	}
	if ev.FPDU == nil {
		return f
	}
	f.add("iwarp_mpa.ulpdulength", uint64(len(ev.FPDU.ULPDU)))
	name := "iwarp_mpa.crc" // fields that are not compared
	if ev.Conn.CRC {
		name = "iwarp_mpa.crc_check"
	}
	f.add(name, uint64(binary.BigEndian.Uint32(ev.Raw[len(ev.Raw)-4:])))
	if d := ev.DDP; d != nil {
		f.add("iwarp_ddp.tagged_flag", oneIf(d.Tagged))
		f.add("iwarp_ddp.last_flag", oneIf(d.Last))
		f.add("iwarp_ddp.dv", uint64(d.DV))
		if d.Tagged {
			f.add("iwarp_ddp.stag", uint64(d.STag))
			f.add("iwarp_ddp.tagged_offset", d.TO)
		} else {
			f.add("iwarp_ddp.qn", uint64(d.QN))
			f.add("iwarp_ddp.msn", uint64(d.MSN))
			f.add("iwarp_ddp.mo", uint64(d.MO))
		}
		f.add("iwarp_rdma.version", uint64(ev.RDMAP.Version))
		f.add("iwarp_rdma.opcode", uint64(ev.RDMAP.Op))
		if ev.RDMAP.Op.Invalidates() {
			f.add("iwarp_rdma.inval_stag", uint64(ev.RDMAP.Invalidate))
		}
	}
	f.message(ev.Message)
	if ev.Header != nil {
		f.header(ev)
	}
	// tshark shows a call with Read chunks where the last octets of them are.
	if r := ev.RPC; r != nil && (r.Whole || r.IsReply) {
		f.rpc(r)
	}
	return f
}

func (f fields) message(m *decode.Message) {
	switch {
	case m == nil:
	case m.Read != nil:
		f.add("iwarp_rdma.sinkstag", uint64(m.Read.SinkSTag))
		f.add("iwarp_rdma.sinkto", m.Read.SinkTO)
		f.add("iwarp_rdma.rdmardsz", uint64(m.Read.Size))
		f.add("iwarp_rdma.srcstag", uint64(m.Read.SourceSTag))
		f.add("iwarp_rdma.srcto", m.Read.SourceTO)
	case m.Terminate != nil:
		f.add("iwarp_rdma.term_layer", uint64(m.Payload[0]>>4))
	case m.Op == verbs.OpAtomicRequest && m.Extension != nil:
		x := m.Extension
		f.add("iwarp_rdma.atomic.opcode", uint64(x.Atomic.Op))
		f.add("iwarp_rdma.atomic.request_identifier", uint64(x.ID))
		f.add("iwarp_rdma.atomic.remote_stag", uint64(x.STag))
		f.add("iwarp_rdma.atomic.remote_tagged_offset", x.TO)
	case m.Op == verbs.OpAtomicResponse && m.Extension != nil:
		f.add("iwarp_rdma.atomic.original_request_identifier", uint64(m.Extension.ID))
		f.add("iwarp_rdma.atomic.original_remote_data_value", m.Extension.Old)
	}
}

// header adds the RPC-over-RDMA header.
func (f fields) header(ev *decode.Event) {
	h := ev.Header
	f.add("rpcordma.xid", uint64(h.XID))
	f.add("rpcordma.version", uint64(h.Vers))
	f.add("rpcordma.flow_control", uint64(h.Credit))
	f.add("rpcordma.msg_type", uint64(h.Type))
	switch {
	case h.Type == 3: // RDMA_DONE
		return
	case h.Type == 4: // RDMA_ERROR
		f.add("rpcordma.errcode", uint64(h.Err))
		if h.Err == 1 {
			f.add("rpcordma.vers_low", uint64(h.Low))
			f.add("rpcordma.vers_high", uint64(h.High))
		}
		return
	}
	f.add("rpcordma.reads_count", uint64(len(h.Read)))
	f.add("rpcordma.writes_count", uint64(len(h.Write)))
	f.add("rpcordma.reply_count", oneIf(h.HasReply))
	for _, s := range h.Read {
		f.add("rpcordma.position", uint64(s.Position))
		f.segments(s.Segment)
	}
	for _, w := range h.Write {
		f.segments(w...)
	}
	f.segments(h.Reply...)
}

func (f fields) segments(list ...chunks.Segment) {
	for _, s := range list {
		f.add("rpcordma.rdma_handle", uint64(s.Handle))
		f.add("rpcordma.rdma_length", uint64(s.Length))
		f.add("rpcordma.rdma_offset", s.Offset)
	}
}

func (f fields) rpc(r *decode.RPC) {
	f.add("rpc.xid", uint64(r.XID))
	f.add("rpc.msgtyp", oneIf(r.IsReply))
	if r.Name != "" {
		f.add("rpc.program", uint64(r.Prog))
		f.add("rpc.programversion", uint64(r.Vers))
		f.add("rpc.procedure", uint64(r.Proc))
	}
	if r.Prog == nfs3.Program && r.Vers == nfs3.Version && r.Status != "" {
		f.add("nfs.status3", uint64(r.StatusCode))
	}
	if c := r.Compound; c != nil {
		if r.IsReply {
			f.add("nfs.nfsstat4", uint64(c.Status))
		}
		for _, op := range c.Ops {
			f.add("nfs.opcode", uint64(op.Num))
			if r.IsReply {
				f.add("nfs.nfsstat4", uint64(op.Status))
			}
		}
	}
}

// corpus is many captures in one file, reframed; the third octet of their addresses tells them apart.
type corpus struct {
	names  []string // of the capture that a packet is from
	frames []fields // what our decoder says
}

// add adds a capture to the file that w writes.
func (c *corpus) add(t *testing.T, w *pcapgo.Writer, name string, in io.Reader) {
	t.Helper()
	var out bytes.Buffer
	if _, err := reframe(&out, in); err != nil {
		t.Fatal(name, err)
	}
	first, id := len(c.frames), byte(0)
	if first > 0 {
		id = c.id() + 1
	}
	for pkt, err := range decode.Packets(bytes.NewReader(out.Bytes())) {
		check(t, err)
		pkt.Data[28], pkt.Data[32] = id, id // the third octet of both addresses, IPv4
		ci := gopacket.CaptureInfo{Timestamp: pkt.Time, CaptureLength: len(pkt.Data), Length: len(pkt.Data)}
		check(t, w.WritePacket(ci, pkt.Data))
		c.names, c.frames = append(c.names, name), append(c.frames, make(fields))
	}
	for ev, err := range decode.Events(bytes.NewReader(out.Bytes()), nil) {
		check(t, err)
		if ev.Kind == decode.KindStartup || ev.Kind == decode.KindFPDU {
			c.frames[first+ev.Frame-1] = ours(ev)
		}
	}
}

// id counts the captures so far.
func (c *corpus) id() byte { return byte(len(slices.Compact(slices.Clone(c.names))) - 1) }

// theirs returns the fields that tshark finds, by packet.
func theirs(t *testing.T, file string) []fields {
	t.Helper()
	args := []string{"-r", file, "-o", "tcp.try_heuristic_first:TRUE", "-n", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,", "-E", "separator=/t"}
	for _, n := range fieldNames {
		args = append(args, "-e", n)
	}
	out, err := exec.CommandContext(t.Context(), "tshark", args...).Output()
	check(t, err)
	var all []fields
	for line := range strings.Lines(string(out)) {
		f := make(fields)
		for i, col := range strings.Split(strings.TrimRight(line, "\n"), "\t") {
			for _, s := range strings.FieldsFunc(col, func(r rune) bool { return r == ',' }) {
				v, err := strconv.ParseUint(s, 0, 64)
				if err != nil {
					t.Fatalf("%s: %v", fieldNames[i], err)
				}
				f.add(fieldNames[i], v)
			}
			f.once(fieldNames[i])
		}
		all = append(all, f)
	}
	return all
}

// once undoes a repetition: tshark shows the version of a program twice, and dissects data of a Write chunk
// twice, once inline and once rebuilt.
func (f fields) once(name string) {
	if !strings.HasPrefix(name, "rpc.") && !strings.HasPrefix(name, "nfs.") {
		return
	}
	for v := f[name]; len(v) > 1 && slices.Equal(v[:len(v)/2], v[len(v)/2:]) && name != "nfs.nfsstat4"; v = f[name] {
		f[name] = v[:len(v)/2]
	}
}

// difference is a row of the table of differences.
type difference struct{ capture, field string }

// readDifferences reads the table: how many frames differ, by capture and field.
func readDifferences(t *testing.T) map[difference]int {
	t.Helper()
	b, err := os.ReadFile("testdata/tshark-fields.tsv")
	check(t, err)
	table := make(map[difference]int)
	for line := range strings.Lines(string(b)) {
		col := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		n := 0
		if len(col) == 4 {
			n, err = strconv.Atoi(col[2])
		}
		if len(col) != 4 || err != nil || n == 0 || col[3] == "" {
			t.Fatalf("tshark-fields.tsv: %q", line)
		}
		table[difference{col[0], col[1]}] = n
	}
	return table
}

// TestFields: field by field, frame by frame, our decoder and tshark agree about every capture of the corpus
// and about this project's own recordings, except for the differences that testdata/tshark-fields.tsv lists
// with reasons; a row without a difference fails too.
func TestFields(t *testing.T) {
	if _, err := exec.LookPath("tshark"); errors.Is(err, exec.ErrNotFound) {
		t.Skip(errNoTshark, "(CI has it)")
	}
	t.Parallel()
	table := readDifferences(t)
	file := filepath.Join(t.TempDir(), "corpus.pcap")
	out, err := os.Create(file)
	check(t, err)
	defer out.Close()
	w := pcapgo.NewWriterNanos(out)
	check(t, w.WriteFileHeader(1<<17, layers.LinkTypeEthernet))
	var c corpus
	captures, err := filepath.Glob(pcaps + "[a-q]*.pcap") // not those of RoCE
	check(t, err)
	for _, name := range captures {
		in, err := os.Open(name)
		check(t, err)
		c.add(t, w, filepath.Base(name), in)
		in.Close()
	}
	for name, b := range recorded(t) {
		c.add(t, w, name, bytes.NewReader(b))
	}
	found := make(map[difference]int)
	samples := make(map[difference]string)
	values := 0
	for i, f := range theirs(t, file) {
		for _, n := range fieldNames {
			values += len(f[n])
			if slices.Equal(f[n], c.frames[i][n]) {
				continue
			}
			d := difference{c.names[i], n}
			found[d]++
			if len(samples[d]) < 200 {
				samples[d] += fmt.Sprintf("packet %d: %x, tshark %x; ", i-slices.Index(c.names, c.names[i])+1, c.frames[i][n], f[n])
			}
		}
	}
	t.Logf("%d packets, %d values", len(c.frames), values)
	for d, n := range found {
		if table[d] != n {
			t.Errorf("%s\t%s\t%d\tthe table says %d: %s", d.capture, d.field, n, table[d], samples[d])
		}
		delete(table, d)
	}
	for _, d := range slices.Collect(maps.Keys(table)) {
		t.Errorf("no difference: %v", d)
	}
}
