package main

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/probe"
)

//go:embed matrix.html
var pageText string

// row is a case, with what all peers did.
type row struct {
	probe.Case
	ID     string
	Layer  string // of the first row of each
	Sent   string // octets
	Cells  []*view
	Groups []*group
}

// view is a cell as the table shows it; Cell is nil if the case was not played.
type view struct {
	*Cell
	Of         *Column
	ID         string
	Word, Sign string
}

// group is cells that are alike: those of one peer unless they are ok.
type group struct {
	*view
	All []*view
}

// sum counts the cells of a column.
type sum struct {
	*Column
	Pass, Tolerated, Fail, NotReached int
}

// view returns the cell of a case.
func (c *Column) view(name string) *view {
	v := &view{Cell: c.find(name), Of: c, ID: slug(c.Name + "-" + name)}
	switch {
	case v.Cell == nil:
		v.Word, v.Sign = "not played", "·"
	case v.Answers == "not reached":
		v.Word, v.Sign = "not reached", "○"
	case v.Verdict == "ok":
		v.Word, v.Sign = "pass", "✓"
	case v.Verdict == "tolerated":
		v.Word, v.Sign = "tolerated", "~"
	default:
		v.Word, v.Sign = "fail", "✗"
	}
	return v
}

// plain reports whether nothing is to be said about a cell but what it answered.
func (v *view) plain() bool { return v.Verdict == "ok" }

func slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}

// table has the peers of one role.
type table struct {
	Role string
	Sums []*sum
	Rows []*row
}

// writeMatrix writes the page about all columns that are in dir. about says who played the cases.
func writeMatrix(w io.Writer, dir, title, about string) error {
	list, err := columns(dir)
	if err != nil {
		return err
	}
	t, err := template.New("matrix").Funcs(template.FuncMap{"hex": spaced, "join": strings.Join}).Parse(pageText)
	if err != nil {
		return err
	}
	servers, clients := &table{Role: "Servers"}, &table{Role: "Clients"}
	for _, c := range list {
		of := servers
		if c.Client {
			of = clients
		}
		of.Sums = append(of.Sums, &sum{Column: c})
	}
	servers.fill((&probe.Prober{}).Cases())
	clients.fill((&probe.Trap{}).Cases())
	return t.Execute(w, struct {
		Title, About string
		Tables       []*table
	}{title, about, []*table{servers, clients}})
}

// fill makes the rows.
func (t *table) fill(cases []probe.Case) {
	last := ""
	for _, k := range cases {
		r := &row{Case: k, ID: slug(k.Name)}
		for _, s := range t.Sums {
			v := s.view(k.Name)
			r.Cells = append(r.Cells, v)
			s.count(v)
			if v.Cell != nil {
				r.add(v)
			}
		}
		if r.Groups == nil {
			continue
		}
		if layer, _, _ := strings.Cut(k.Name, "/"); layer != last {
			r.Layer, last = layer, layer
		}
		t.Rows = append(t.Rows, r)
	}
}

func (s *sum) count(v *view) {
	switch v.Word {
	case "pass":
		s.Pass++
	case "tolerated":
		s.Tolerated++
	case "fail":
		s.Fail++
	case "not reached":
		s.NotReached++
	}
}

// add enters a cell into the group to which it belongs.
func (r *row) add(v *view) {
	if r.Sent == "" {
		r.Sent = v.Sent
	}
	for _, g := range r.Groups {
		if v.plain() && g.plain() && g.Answers == v.Answers {
			g.All = append(g.All, v)
			return
		}
	}
	r.Groups = append(r.Groups, &group{v, []*view{v}})
}

// spaced puts a blank after every fourth octet.
func spaced(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += 8 {
		b.WriteString(s[i:min(i+8, len(s))] + " ")
	}
	return b.String()
}
