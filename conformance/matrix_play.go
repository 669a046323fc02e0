package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// Peer is a server that is probed, or a client that is trapped.
type Peer struct {
	Name  string // "knfsd-6.1": letters, digits, - and .
	About string // its version and where it ran
	Date  string // YYYY-MM-DD

	Server string // host:port, or
	Client func(ctx context.Context, addr string) probe.ClientRun
	Behind string // of a Client: the good server; the trap listens on its host

	Only, Skip *regexp.Regexp // select cases
	Resume     bool           // keep the cells that are there already
}

// errName is wrapped by the error of a Play whose peer has a name that cannot be part of a file name.
var errName = errors.New("a name has letters, digits, - and . only")

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.'
}

// What is kept of a cell: of tries that are alike so many, so many connections where a try has several, and so many
// octets, which leaves out load.
const (
	examples = 2
	maxConns = 4
	maxKept  = 256 << 10
)

// shown is how many octets a cell has of its first connection, in either direction.
const shown = 64

// playMatrix plays the cases to a peer and writes its column to dir. report is called after each case. The error says why the
// peer could not be played to its end; what was found before is kept.
func playMatrix(ctx context.Context, dir string, p *Peer, report func(*Cell)) error {
	if p.Name == "" || strings.ContainsFunc(p.Name, func(r rune) bool { return !nameRune(r) }) {
		return fmt.Errorf("%q: %w", p.Name, errName)
	}
	c := &Column{Name: p.Name}
	if p.Resume {
		old, err := load(filepath.Join(dir, c.File("json")))
		switch {
		case err == nil:
			c = old
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	} else if err := c.clear(dir); err != nil {
		return err
	}
	c.About, c.Date, c.Client, c.Ended = p.About, p.Date, p.Client != nil, ""
	for _, name := range p.cases() {
		if c.find(name) != nil {
			continue
		}
		if err := c.play(ctx, dir, p, name, report); err != nil {
			c.Ended = err.Error()
			return errors.Join(err, c.save(dir))
		}
	}
	return c.save(dir)
}

// cases returns the names of the selected cases.
func (p *Peer) cases() (names []string) {
	all := (&probe.Prober{Only: p.Only, Skip: p.Skip}).Cases
	if p.Client != nil {
		all = (&probe.Trap{Only: p.Only, Skip: p.Skip}).Cases
	}
	for _, x := range all() {
		names = append(names, x.Name)
	}
	return names
}

// play plays one case, and enters and saves what it finds.
func (c *Column) play(ctx context.Context, dir string, p *Peer, name string, report func(*Cell)) error {
	var packets bytes.Buffer
	w, err := capture.NewWriter(&packets)
	if err != nil {
		return err
	}
	var r *probe.Result
	note := func(x *probe.Result) { r = x }
	only, from := regexp.MustCompile("^"+regexp.QuoteMeta(name)+"$"), decode.FromAccepter
	if p.Client == nil {
		_, err = (&probe.Prober{Address: p.Server, Only: only, Capture: w, TriesOnly: true, Octets: shown}).Run(ctx, note)
	} else {
		from = decode.FromOpener
		err = p.trap(ctx, &probe.Trap{Server: p.Behind, Client: p.Client, Only: only, Capture: w, Octets: shown}, note)
	}
	err = errors.Join(err, w.Close())
	if r == nil {
		return err
	}
	cell := &Cell{Case: name, Verdict: r.Verdict, Answers: r.Answers(), Alive: r.Alive}
	if len(r.Tries) > 0 {
		cell.Sent, cell.Got = hex.EncodeToString(r.Tries[0].Sent), hex.EncodeToString(r.Tries[0].Got)
	}
	if r.Verdict != "ok" {
		wanted := make([]bool, len(r.Tries))
		for i := range r.Tries {
			like := cell.add(&r.Tries[i])
			wanted[i] = like.Verdict != "ok" && like.N <= examples
		}
		kept, e := some(packets.Bytes(), wanted, maxConns)
		err = errors.Join(err, e)
		if len(kept) <= maxKept {
			err = errors.Join(err, c.keep(dir, cell, kept, from))
		}
	}
	c.Cells = append(c.Cells, cell)
	report(cell)
	return errors.Join(err, c.save(dir))
}

// trap plays the case of a trap.
func (p *Peer) trap(ctx context.Context, tr *probe.Trap, note func(*probe.Result)) error {
	host, _, err := net.SplitHostPort(p.Behind)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	_, err = tr.Run(ctx, l, note)
	return err
}

// Column is what one peer did. It is kept as NAME.json; the connections of its cells that are not ok are in
// NAME.pcapng.gz.
type Column struct {
	Name    string  `json:"name"`
	About   string  `json:"about"` // version, and where it ran
	Date    string  `json:"date"`  // YYYY-MM-DD
	Client  bool    `json:"client,omitempty"`
	Ended   string  `json:"ended,omitempty"` // why there are no more cells
	Packets int     `json:"packets"`         // in NAME.pcapng.gz
	Cells   []*Cell `json:"cells"`
}

// Cell is how a peer did in a case.
type Cell struct {
	Case    string   `json:"case"`
	Verdict string   `json:"verdict"` // ok, tolerated, fails
	Answers string   `json:"answers"` // "closed 2, rejected 1"
	Sent    string   `json:"sent,omitempty"`
	Got     string   `json:"got,omitempty"`   // the first octets of the first connection, in hexadecimal
	Tries   []*Tries `json:"tries,omitempty"` // of a cell that is not ok
	Alive   []string `json:"alive,omitempty"`
	First   int      `json:"first,omitempty"` // packet of the cell in NAME.pcapng.gz; 0: load is not kept
	Broken  []Packet `json:"broken,omitempty"`
}

// Tries are those of a cell that are alike: Did and Judged are of the first.
type Tries struct {
	Names   []string `json:"names,omitempty"`
	N       int      `json:"n"`
	Did     string   `json:"did"`
	Verdict string   `json:"verdict"`
	Why     string   `json:"why,omitempty"`
	Judged  []string `json:"judged,omitempty"`
}

// add enters a try, and returns those that are like it, itself included.
func (c *Cell) add(t *probe.Try) *Tries {
	i := slices.IndexFunc(c.Tries, func(x *Tries) bool {
		return x.Verdict == t.Verdict && x.Why == t.Why && t.Verdict == "ok" || x.Did == t.Did && x.Verdict == t.Verdict && x.Why == t.Why && slices.EqualFunc(x.Judged, t.Judged, sameRule)
	})
	if i < 0 {
		i = len(c.Tries)
		c.Tries = append(c.Tries, &Tries{Did: t.Did, Verdict: t.Verdict, Why: t.Why, Judged: t.Judged})
	}
	x := c.Tries[i]
	x.N++
	if t.Name != "" {
		x.Names = append(x.Names, t.Name)
	}
	return x
}

// sameRule reports whether two sentences of the judge are about one rule.
func sameRule(a, b string) bool {
	ra, _, _ := strings.Cut(a, ":")
	rb, _, _ := strings.Cut(b, ":")
	return ra == rb
}

// Packet is a violation of the peer, in a packet of NAME.pcapng.gz.
type Packet struct {
	Frame int    `json:"frame"`
	Rule  string `json:"rule"`
}

// Captured reports whether the column has packets.
func (c *Column) Captured() bool { return c.Packets > 0 }

// File returns the name of one of the column's files, "json" or "pcapng.gz".
func (c *Column) File(ext string) string { return c.Name + "." + ext }

// find returns the cell of a case, nil if it was not played.
func (c *Column) find(name string) *Cell {
	if i := slices.IndexFunc(c.Cells, func(x *Cell) bool { return x.Case == name }); i >= 0 {
		return c.Cells[i]
	}
	return nil
}

// load reads the column that is in dir. The error is fs.ErrNotExist if there is none.
func load(file string) (*Column, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := new(Column)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if strings.ContainsFunc(c.Name, func(r rune) bool { return !nameRune(r) }) || c.Name == "" {
		return nil, fmt.Errorf("%s: a column called %q", file, c.Name)
	}
	return c, nil
}

// columns returns all columns in dir, servers first.
func columns(dir string) (list []*Column, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, client := range []bool{false, true} {
		for _, f := range files {
			c, err := load(f)
			if err != nil {
				return nil, err
			}
			if c.Client == client {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// save writes NAME.json, so that a machine that dies afterwards has lost nothing.
func (c *Column) save(dir string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(c); err != nil {
		return err
	}
	name := filepath.Join(dir, c.File("json"))
	if err := os.WriteFile(name+".new", b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// clear removes what dir has of the column.
func (c *Column) clear(dir string) error {
	for _, ext := range []string{"json", "pcapng.gz"} {
		if err := os.Remove(filepath.Join(dir, c.File(ext))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keep appends the packets of a cell to NAME.pcapng.gz: members of gzip and sections of pcapng may follow each other.
func (c *Column) keep(dir string, cell *Cell, packets []byte, peer decode.Dir) error {
	b := judge.NewBuilder(nil)
	n, err := events(bytes.NewReader(packets), b.Event)
	if err != nil || n == 0 {
		return err
	}
	cell.First = c.Packets + 1
	for _, v := range b.Report().Violations {
		if v.Dir == peer && v.Rule.Severity != judge.Note {
			cell.Broken = append(cell.Broken, Packet{c.Packets + v.Frame, v.Rule.ID})
		}
	}
	cell.Broken = slices.Compact(cell.Broken)
	f, err := os.OpenFile(filepath.Join(dir, c.File("pcapng.gz")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(packets)
	c.Packets += n
	return errors.Join(err, z.Close(), f.Close())
}

// events passes the events of a capture on, and returns the number of its packets.
func events(r io.Reader, visit func(*decode.Event)) (int, error) {
	c := decode.NewCapture(nil, visit)
	for p, err := range decode.Packets(r) {
		if err != nil {
			return 0, err
		}
		c.Packet(&p)
	}
	c.Finish()
	return c.Stats.Packets, nil
}

// some copies the connections of a capture that are wanted, which are in the order of the tries. If there are not as
// many as tries, it copies the first ones, at most n.
func some(packets []byte, wanted []bool, n int) ([]byte, error) {
	type key [2]uint64 // the same in both directions
	conns := make(map[key]int)
	of := func(p *decode.Packet) int {
		x := gopacket.NewPacket(p.Data, p.Link, gopacket.NoCopy)
		if x.NetworkLayer() == nil || x.TransportLayer() == nil {
			return -1
		}
		k := key{x.NetworkLayer().NetworkFlow().FastHash(), x.TransportLayer().TransportFlow().FastHash()}
		i, ok := conns[k]
		if !ok {
			i = len(conns)
			conns[k] = i
		}
		return i
	}
	for p, err := range decode.Packets(bytes.NewReader(packets)) {
		if err != nil {
			return nil, err
		}
		of(&p)
	}
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	if err != nil {
		return nil, err
	}
	for p, err := range decode.Packets(bytes.NewReader(packets)) {
		if err != nil {
			return nil, err
		}
		i := of(&p)
		if len(conns) == len(wanted) && !wanted[max(i, 0)] || len(conns) != len(wanted) && i >= n || i < 0 {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Data), Length: p.Len}
		if err := w.WritePacket(ci, p.Data); err != nil {
			return nil, err
		}
	}
	err = w.Flush()
	return out.Bytes(), err
}
