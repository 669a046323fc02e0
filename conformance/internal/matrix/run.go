package matrix

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
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

// ErrName is wrapped by the error of a Play whose peer has a name that cannot be part of a file name.
var ErrName = errors.New("a name has letters, digits, - and . only")

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

// Play plays the cases to a peer and writes its column to dir. report is called after each case. The error says why the
// peer could not be played to its end; what was found before is kept.
func Play(ctx context.Context, dir string, p *Peer, report func(*Cell)) error {
	if p.Name == "" || strings.ContainsFunc(p.Name, func(r rune) bool { return !nameRune(r) }) {
		return fmt.Errorf("%q: %w", p.Name, ErrName)
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
