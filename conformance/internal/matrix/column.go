package matrix

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe"
)

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
