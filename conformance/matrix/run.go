package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stag-rdma/stag/conformance/decode"
	"github.com/stag-rdma/stag/conformance/internal/page"
	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/conformance/judge"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// Peer is a column: a server that is probed, or a client that is trapped.
type Peer struct {
	Name  string // "knfsd"
	About string // its version and where it ran

	Server string // host:port, or
	Client func(ctx context.Context, addr string) probe.ClientRun
	Behind string // of a Client: the good server
}

// Matrix is what was found.
type Matrix struct {
	Title string
	Date  string
	About string // of what probed
	Peers []Peer
	cells map[string]map[string]*Cell // by case and peer
	cases []probe.Case                // in order
}

// Cell is one case of one peer.
type Cell struct {
	Peer    string
	Result  *probe.Result
	Capture string // file name in the directory of the page; "" if it was not kept
	Judged  string // of the judge's page of it
	Packets []Packet
}

// Packet is a violation of the peer, in a packet of the capture.
type Packet struct {
	Frame int
	Rule  string
}

// New returns an empty matrix.
func New(title, date, about string) *Matrix {
	return &Matrix{Title: title, Date: date, About: about, cells: make(map[string]map[string]*Cell)}
}

// maxKept bounds the captures that are kept, in octets: load is not kept.
const maxKept = 256 << 10

// What the page shows of each connection, in octets.
const (
	octets       = 320
	octetsPassed = 96
)

// Run plays the cases to a peer. Captures of cells that are not ok are written to dir, with the judge's pages. report is
// called after each case. The error says why the peer could not be probed to its end; what was found before is kept.
func (m *Matrix) Run(ctx context.Context, dir string, p Peer, only, skip *regexp.Regexp, report func(*Cell)) error {
	m.Peers = append(m.Peers, p)
	if p.Client != nil {
		return m.client(ctx, dir, p, only, skip, report)
	}
	all := (&probe.Prober{Only: only, Skip: skip}).Cases()
	for _, c := range all {
		var file bytes.Buffer
		w, err := capture.NewWriter(&file)
		if err != nil {
			return err
		}
		pr := &probe.Prober{Address: p.Server, Only: exactly(c.Name), Capture: w, Octets: octets}
		var r *probe.Result
		_, err = pr.Run(ctx, func(x *probe.Result) { r = x })
		if e := w.Close(); err == nil {
			err = e
		}
		if r == nil && err != nil {
			return err
		}
		if e := m.keep(dir, p, r, file.Bytes(), decode.FromAccepter, report); e != nil || err != nil {
			return errors.Join(err, e)
		}
	}
	return nil
}

// exactly matches one name.
func exactly(name string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(name) + "$")
}

// client traps a client.
func (m *Matrix) client(ctx context.Context, dir string, p Peer, only, skip *regexp.Regexp, report func(*Cell)) error {
	for _, c := range (&probe.Trap{Only: only, Skip: skip}).Cases() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		var file bytes.Buffer
		w, err := capture.NewWriter(&file)
		if err != nil {
			return err
		}
		tr := &probe.Trap{Server: p.Behind, Client: p.Client, Only: exactly(c.Name), Capture: w, Octets: octets}
		var r *probe.Result
		_, err = tr.Run(ctx, l, func(x *probe.Result) { r = x })
		if e := w.Close(); err == nil {
			err = e
		}
		if r == nil && err != nil {
			return err
		}
		if e := m.keep(dir, p, r, file.Bytes(), decode.FromOpener, report); e != nil || err != nil {
			return errors.Join(err, e)
		}
	}
	return nil
}

// keep enters a result.
func (m *Matrix) keep(dir string, p Peer, r *probe.Result, file []byte, peer decode.Dir, report func(*Cell)) error {
	if m.cells[r.Name] == nil {
		m.cells[r.Name] = make(map[string]*Cell)
		m.cases = append(m.cases, r.Case)
	}
	c := &Cell{Peer: p.Name, Result: r}
	m.cells[r.Name][p.Name] = c
	for i := range r.Tries {
		if t := &r.Tries[i]; r.Verdict == "ok" {
			t.Sent, t.Got = t.Sent[:min(len(t.Sent), octetsPassed)], t.Got[:min(len(t.Got), octetsPassed)]
		}
	}
	if r.Verdict != "ok" && len(file) <= maxKept {
		if err := c.write(dir, file, peer); err != nil {
			return err
		}
	}
	report(c)
	return nil
}

// ID names the cell in links.
func (c *Cell) ID() string { return slug(c.Peer + "-" + c.Result.Name) }

func slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}

// write writes the capture of a cell, and the judge's page of it.
func (c *Cell) write(dir string, file []byte, peer decode.Dir) error {
	c.Capture, c.Judged = c.ID()+".pcapng", c.ID()+".html"
	if err := os.WriteFile(filepath.Join(dir, c.Capture), file, 0o644); err != nil {
		return err
	}
	drawn, b := page.New(c.Capture, nil), judge.NewBuilder(nil)
	for ev, err := range decode.Events(bytes.NewReader(file), nil) {
		if err != nil {
			return fmt.Errorf("%s: %w", c.Capture, err)
		}
		drawn.Event(ev)
		b.Event(ev)
	}
	rep := b.Report()
	for _, v := range rep.Violations {
		if v.Dir == peer && v.Rule.Severity != judge.Note {
			c.Packets = append(c.Packets, Packet{v.Frame, v.Rule.ID})
		}
	}
	out, err := os.Create(filepath.Join(dir, c.Judged))
	if err != nil {
		return err
	}
	err = drawn.Write(out, rep)
	return errors.Join(err, out.Close())
}

// Incomplete notes that a peer could not be probed to its end.
func (m *Matrix) Incomplete(name string, err error) {
	for i := range m.Peers {
		if m.Peers[i].Name == name {
			m.Peers[i].About += " (ended early: " + err.Error() + ")"
		}
	}
}
