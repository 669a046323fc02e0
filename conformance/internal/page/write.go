package page

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

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
