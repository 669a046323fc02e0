// Package page draws a capture as one self-contained HTML page: no network, no fonts, no second file.
// For each connection it shows a ladder: two lanes, an arrow per message in the order in which the messages were
// complete, coloured by the XID that they serve, the credits underneath, and the violations that a judge
// found, each at its place.
//
// A [Builder] takes the events of a capture (package decode), and at the end what the judge found in them:
//
//	p, j := page.New("trace.pcap", nil), judge.NewBuilder(nil)
//	for ev, err := range decode.Events(file, nil) {
//		...
//		p.Event(ev)
//		j.Event(ev)
//	}
//	err := p.Write(out, j.Report())
//
// # What is an arrow
//
// An MPA startup frame, an untagged message, or a run of tagged segments up to the one with the
// L bit: an RDMA Write of 1 MiB in 735 FPDUs is one arrow that says so. Octets that could not
// be decoded and the end of a stream are arrows too. Connections that are not MPA have none.
//
// # Bounds
//
// [Options] bounds what is kept, whatever the capture says: the number of messages, the
// octets shown of each, the size of all. The page says what it leaves out.
//
// # Safety
//
// All text of the page comes from packets. It travels as JSON in which "<", ">" and "&" are
// escaped, the script writes it with textContent only, and the page's own policy
// (Content-Security-Policy) allows no script but the embedded one, by its hash, or judge.js of its folder.
package page

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// Options bounds a page. The zero value, and nil, mean the defaults.
type Options struct {
	// MaxMessages bounds the arrows of all connections. If zero, 20,000. Later frames are counted, but not
	// shown.
	MaxMessages int

	// MaxOctets bounds the octets shown per message, from the first of its first FPDU on. If
	// zero, 256.
	MaxOctets int

	// MaxDetail bounds the decoded fields and octets of all messages, in octets of the page. If zero, 64
	// MiB. Messages beyond that have only their line.
	MaxDetail int
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxMessages = cmp.Or(c.MaxMessages, 20_000)
	c.MaxOctets = cmp.Or(c.MaxOctets, 256)
	c.MaxDetail = cmp.Or(c.MaxDetail, 64<<20)
	return c
}

// A Builder collects what a page shows. It is for one goroutine.
type Builder struct {
	name  string
	opt   Options
	start time.Time // of the first event

	conns  []*conn // by appearance
	byID   map[int]*conn
	shown  int // messages that have a row
	hidden int // frames after the last of them
	detail int // octets of detail left
}

// New returns the builder of an empty page about the capture called name.
func New(name string, opt *Options) *Builder {
	b := &Builder{name: name, opt: opt.withDefaults(), byID: make(map[int]*conn)}
	b.detail = b.opt.MaxDetail
	return b
}

// Event takes the next event of the capture. It borrows ev.
func (b *Builder) Event(ev *decode.Event) {
	if b.start.IsZero() {
		b.start = ev.Time
	}
	c := b.byID[ev.Conn.ID]
	switch {
	case ev.Kind == decode.KindOpen || ev.Conn.Foreign || errors.Is(ev.Err, decode.ErrNotMPA):
		return
	case c == nil && ev.Kind == decode.KindClose:
		return
	case b.shown >= b.opt.MaxMessages:
		b.hidden++
		return
	case c == nil:
		c = b.conn(ev.Conn.ID)
	}
	c.settle(ev.Conn)
	b.extend(c, c.row(ev), ev)
}

// conn returns a new connection.
func (b *Builder) conn(id int) *conn {
	c := &conn{ID: id}
	b.byID[id] = c
	b.conns = append(b.conns, c)
	return c
}

// extend adds an event to its row.
func (b *Builder) extend(c *conn, r *row, ev *decode.Event) {
	if r.Segments == 0 {
		b.shown++
		b.octets(r, ev)
	}
	r.add(ev, b.start)
	if completes(ev) {
		c.finish(r, ev)
		b.fields(r, ev)
	}
}

//go:embed page.html page.css js/*.js
var files embed.FS

// scripts are the files of the script, in the order in which they are joined.
var scripts = []string{"data", "view", "filter", "ladder", "chart", "details", "side", "keys", "link", "main"}

// Version is the version of the data embedded in a page.
const Version = 1

// document is what the template shows.
type document struct {
	Name   string
	Policy string // Content-Security-Policy
	Style  template.CSS
	Script template.JS
	Data   payload
}

// payload is the data of the page.
type payload struct {
	Version   int             `json:"version"`
	Name      string          `json:"name"`
	Start     string          `json:"start,omitempty"` // of the capture, RFC 3339
	Conns     []*conn         `json:"conns"`
	Rules     map[string]rule `json:"rules"`
	Hidden    int             `json:"hidden"` // frames after Options.MaxMessages
	MaxOctets int             `json:"max_octets"`
}

// Write writes the page with the report of a judge, nil if there is none. The builder must not be used after
// it.
func (b *Builder) Write(w io.Writer, rep *judge.Report) error {
	for _, c := range b.conns {
		c.end()
	}
	doc, err := b.document()
	if err != nil {
		return err
	}
	doc.Data.Rules = b.report(rep)
	doc.Data.Conns = b.conns
	t, err := template.ParseFS(files, "page.html")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := t.Execute(out, doc); err != nil {
		return err
	}
	return out.Flush()
}

// assets returns the style and the script.
func assets() (style, script []byte, err error) {
	if style, err = files.ReadFile("page.css"); err != nil {
		return nil, nil, err
	}
	for _, name := range scripts {
		s, err := files.ReadFile("js/" + name + ".js")
		if err != nil {
			return nil, nil, err
		}
		script = append(script, s...)
	}
	return style, script, nil
}

func (b *Builder) document() (*document, error) {
	style, script, err := assets()
	if err != nil {
		return nil, err
	}
	from := "style-src " + hash(style) + "; script-src " + hash(script)
	d := &document{
		Name: b.name, Style: template.CSS(style), Script: template.JS(script),
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; " + from,
		Data: payload{
			Version: Version, Name: b.name, Hidden: b.hidden, MaxOctets: b.opt.MaxOctets,
		},
	}
	if !b.start.IsZero() {
		d.Data.Start = b.start.UTC().Format("2006-01-02T15:04:05.000000000Z")
	}
	return d, nil
}

// hash returns the name that a policy uses for an embedded text.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
