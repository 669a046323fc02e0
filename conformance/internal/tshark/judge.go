package tshark

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// ErrMissing: tshark is not installed.
var ErrMissing = errors.New("tshark is not installed here: apt-get install tshark")

// heuristic makes tshark look for MPA before it goes by port: one end of a connection has a port that the
// kernel has chosen, and 57000 is IRC.
const heuristic = "tcp.try_heuristic_first:TRUE"

// Report is what tshark finds in a capture.
type Report struct {
	FPDUs             int // that tshark finds
	Decoded           int // that our decoder finds
	GoodCRCs, BadCRCs int
	Malformed         []Complaint
}

// Complaint is a packet that tshark marks as malformed or with an error.
type Complaint struct {
	Frame  int // of the capture that Reframe made
	From   netip.Addr
	Offset uint64 // in its stream
	Event  string // what our decoder says about it
}

// Err returns nil if tshark finds nothing wrong, and as many FPDUs as our decoder.
func (r *Report) Err() error {
	var errs []error
	for _, c := range r.Malformed {
		errs = append(errs, fmt.Errorf("tshark finds packet %d from %v malformed: %s", c.Frame, c.From, c.Event))
	}
	if r.BadCRCs > 0 {
		errs = append(errs, fmt.Errorf("tshark finds %d bad CRCs", r.BadCRCs))
	}
	if r.FPDUs != r.Decoded {
		errs = append(errs, fmt.Errorf("tshark finds %d FPDUs, we find %d", r.FPDUs, r.Decoded))
	}
	return errors.Join(errs...)
}

// Judge runs tshark on a capture. An error means that this was not possible: ErrMissing, or an error of the
// file or of tshark.
func Judge(ctx context.Context, file string) (*Report, error) {
	if _, err := exec.LookPath("tshark"); err != nil {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "tshark")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j := judge{ctx: ctx, file: filepath.Join(dir, "reframed.pcap")}
	rpc, err := reframeFile(j.file, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !rpc { // if there is none, tshark still finds some
		j.flags = []string{"--disable-protocol", "rpcordma"}
	}
	return j.report()
}

func reframeFile(to, from string) (rpc bool, err error) {
	in, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return false, err
	}
	w := bufio.NewWriter(out)
	rpc, err = reframe(w, in)
	return rpc, errors.Join(err, w.Flush(), out.Close())
}

// judge runs tshark on one reframed capture.
type judge struct {
	ctx   context.Context
	file  string
	flags []string
}

func (j *judge) report() (*Report, error) {
	once, err := j.marked()
	if err != nil {
		return nil, err
	}
	if len(once) > 0 {
		twice, err := j.marked("-2")
		if err != nil {
			return nil, err
		}
		once = slices.DeleteFunc(once, func(n int) bool { return !slices.Contains(twice, n) })
	}
	text, err := j.tshark("-O", "iwarp_mpa")
	if err != nil {
		return nil, err
	}
	r := &Report{
		FPDUs:    bytes.Count(text, []byte("ULPDU length:")),
		GoodCRCs: bytes.Count(text, []byte("(Good CRC32)")),
		BadCRCs:  bytes.Count(text, []byte("(Bad CRC32")),
	}
	return r, r.explain(j.file, once)
}

// explain decodes the capture to say what the complaints are about, and leaves out those that are known to
// be wrong.
func (r *Report) explain(file string, frames []int) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	for ev, err := range decode.Events(in, nil) {
		if err != nil {
			return err
		}
		if ev.Kind == decode.KindFPDU {
			r.Decoded++
		}
		if len(ev.Raw) == 0 || !slices.Contains(frames, ev.Frame) || unpadded(ev) {
			continue
		}
		from := ev.Conn.Opener
		if ev.Dir == decode.FromAccepter {
			from = ev.Conn.Accepter
		}
		r.Malformed = append(r.Malformed, Complaint{ev.Frame, from.Addr(), ev.Offset, strings.TrimSpace(ev.String())})
	}
	return nil
}

// unpadded reports a reply with a Write chunk that is not a multiple of four octets.
func unpadded(ev *decode.Event) bool {
	if ev.Header == nil || ev.RPC == nil || !ev.RPC.IsReply {
		return false
	}
	for _, c := range ev.Header.Write {
		if c.Room()%4 != 0 {
			return true
		}
	}
	return false
}

// marked returns the packets that tshark marks as malformed, or with an error.
func (j *judge) marked(flags ...string) ([]int, error) {
	out, err := j.tshark(append(flags, "-T", "fields", "-e", "frame.number",
		"-Y", "_ws.malformed || _ws.expert.severity >= 0x00800000")...)
	if err != nil {
		return nil, err
	}
	var frames []int
	for s := range strings.FieldsSeq(string(out)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("tshark: %w", err)
		}
		frames = append(frames, n)
	}
	return frames, nil
}

func (j *judge) tshark(flags ...string) ([]byte, error) {
	cmd := exec.CommandContext(j.ctx, "tshark", slices.Concat([]string{"-r", j.file, "-o", heuristic}, j.flags, flags)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, stderr.Bytes())
	}
	return out, nil
}
