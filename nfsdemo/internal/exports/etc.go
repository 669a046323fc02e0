package exports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/server"
)

// LoadEtc reads a file as exports(5) describes it: a line for each directory, its clients behind it, each with its options
// in parentheses. Of several clients that fit an address, a host counts before a network, a network before a pattern,
// that before a netgroup, and everybody last; within one kind the first one. What is not said is as there: ro,
// root_squash, secure.
func LoadEtc(name string, base Export) ([]Export, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	base.ReadOnly = true
	var list []Export
	at := make(map[string]int) // in list: a directory may have several lines
	for n, line := range lines(string(b)) {
		where := name + ":" + strconv.Itoa(n)
		words, err := split(line)
		if err != nil {
			return nil, &Error{where, err.Error()}
		}
		if len(words) == 0 {
			continue
		}
		dir := words[0]
		if !filepath.IsAbs(dir) {
			return nil, &Error{where, fmt.Sprintf("%q is not an absolute path", dir)}
		}
		i, again := at[dir]
		if !again {
			i = len(list)
			e := base
			e.Path = dir
			at[dir], list = i, append(list, e)
		}
		e, defaults := &list[i], []string(nil)
		clients := words[1:]
		if len(clients) == 0 {
			clients = []string{"*"}
		}
		for _, c := range clients {
			if options, ok := strings.CutPrefix(c, "-"); ok { // for the clients behind it
				defaults = strings.Split(options, ",")
				continue
			}
			who, options, _ := strings.Cut(c, "(")
			options, closed := strings.CutSuffix(options, ")")
			if closed != strings.Contains(c, "(") || strings.ContainsAny(options, "()") {
				return nil, &Error{where, fmt.Sprintf("%q: want a client, with options in parentheses behind it, without a blank between them", c)}
			}
			own := base
			own.Path, own.FSID, own.Mountpoint, own.Says = e.Path, e.FSID, e.Mountpoint, e.Says
			own.Cross, own.NoHide = e.Cross, e.NoHide
			if err := apply(&own, append(slices.Clip(defaults), strings.Split(options, ",")...), false); err != nil {
				return nil, &Error{where, err.Error()}
			}
			if again && !own.sameDir(e) {
				return nil, &Error{where, "fsid, mountpoint, crossmnt and nohide are those of the directory: say them the same for all its clients"}
			}
			e.FSID, e.Mountpoint, e.Says, again = own.FSID, own.Mountpoint, own.Says, true
			e.Cross, e.NoHide = own.Cross, own.NoHide
			g := own.group(server.Client{})
			if who != "" && who != "*" {
				if err := addWho(&g, who); err != nil {
					return nil, &Error{where, err.Error()}
				}
			}
			e.Clients = append(e.Clients, g)
		}
	}
	if len(list) == 0 {
		return nil, &Error{name, "exports nothing"}
	}
	for i := range list {
		slices.SortStableFunc(list[i].Clients, func(a, b server.Client) int { return kind(&a) - kind(&b) })
	}
	return list, nil
}

// kind is the place of a client among others.
func kind(c *server.Client) int {
	switch {
	case len(c.Nets) > 0 && c.Nets[0].IsSingleIP():
		return 0
	case len(c.Nets) > 0:
		return 1
	case c.Everybody():
		return 4
	case len(c.Certs) > 0:
		return 0
	case c.Names[0][0] == '@':
		return 3
	case isPattern(c.Names[0]):
		return 2
	}
	return 0
}

// lines yields lines with their numbers. One that ends in a backslash goes on in the next.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		first, line := 1, ""
		for i, l := range strings.Split(text, "\n") {
			if line == "" {
				first = i + 1
			}
			if more, ok := strings.CutSuffix(l, "\\"); ok {
				line += more + " "
				continue
			}
			if !yield(first, line+l) {
				return
			}
			line = ""
		}
	}
}

// split cuts a line at blanks, and ends it at "#". Quotes keep blanks, and \ooo is an octet.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '"':
			quoted, begun = !quoted, true
		case c == '\\' && i+3 < len(line):
			n, err := strconv.ParseUint(line[i+1:i+4], 8, 8)
			if err != nil {
				return nil, fmt.Errorf("%q: want three octal digits behind a backslash", line[i:i+4])
			}
			word.WriteByte(byte(n))
			i, begun = i+3, true
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '#'):
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
			if c == '#' {
				return words, nil
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed: %s", line)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
