// Package exports reads which directories a server exports, to whom and how: from an option of a command, or
// from a file.
//
//	file, err := exports.Load("/etc/nfsdemo.toml", exports.Defaults())
//	e, err := exports.Parse("/srv/data,ro,client=192.0.2.0/24", exports.Defaults())
//
// # Options
//
// They are those of exports(5), and client=NETWORK, which can be repeated. Those that mean something else here say so
// (Export.Says), and those that would mean nothing are refused. Without others: rw, root_squash and secure.
//
// # File
//
// The file is TOML. What it does not know it refuses. Options of an export hold for its clients unless these
// have their own; without clients, all addresses are admitted.
//
//	[[export]]
//	path = "/srv/data"
//	options = "ro"
//
//	[[export.client]]
//	networks = ["192.0.2.0/24", "2001:db8::/32"]
//	options = "rw,no_root_squash"
//
//	[[export.client]]
//	networks = ["198.51.100.7"]
//
// Who a principal of Kerberos is, if not the user of its name, stands above the exports:
//
//	realms = ["EXAMPLE.ORG"]
//
//	[principals]
//	"host/backup.example.org@EXAMPLE.ORG" = "backup"
package exports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/xdr"
)

// Error says what is wrong with an export.
type Error struct {
	Where string // the export or the file
	Why   string
}

// Error returns both.
func (e *Error) Error() string { return e.Where + ": " + e.Why }

// Export is an export as it is written: what the server is to serve, and what must stand at its path.
type Export struct {
	server.Export
	// FSID is the administrator's name of the file system, "" if it is to tell itself.
	FSID string
	// Mountpoint is where something must be mounted, "" if nothing need be.
	Mountpoint string
	// Cross says that what is mounted below is exported with it, NoHide that this one is reached from the export above.
	Cross, NoHide bool
	// Says tells what options mean here that mean something else elsewhere.
	Says []string
}

// Defaults are the options of an export that gives none.
func Defaults() Export { return Export{Export: server.Export{Secure: true}} }

// Parse reads a directory and its options, separated by commas. Only words at the end that are options count, so
// that a path may have commas. Options that are not given are those of base.
func Parse(text string, base Export) (Export, error) {
	words := strings.Split(text, ",")
	first := len(words)
	for first > 1 {
		if _, _, _, ok := optionOf(words[first-1]); !ok {
			break
		}
		first--
	}
	e := base
	e.Path = strings.Join(words[:first], ",")
	if e.Path == "" {
		return e, &Error{text, "names no directory"}
	}
	if err := apply(&e, words[first:], true); err != nil {
		return e, &Error{text, err.Error()}
	}
	for i, c := range e.Clients { // their options may stand behind them
		e.Clients[i] = e.group(c)
	}
	return e, nil
}

// sameDir reports whether options that belong to the directory are the same.
func (e *Export) sameDir(o *Export) bool {
	return e.FSID == o.FSID && e.Mountpoint == o.Mountpoint && e.Cross == o.Cross && e.NoHide == o.NoHide
}

// group returns who, with the options of e.
func (e *Export) group(who server.Client) server.Client {
	return server.Client{Nets: who.Nets, Names: who.Names, Certs: who.Certs, ReadOnly: e.ReadOnly, Squash: e.Squash, AnonUID: e.AnonUID, AnonGID: e.AnonGID, Secure: e.Secure, XprtSec: e.XprtSec, Sec: e.Sec}
}

// option is a word of exports(5), perhaps with a value.
type option struct {
	value value
	set   func(e *Export, value string) error // nil: there is nothing to do
	says  string                              // what it means here, where it means less or something else than there
	not   string                              // why it is refused
}

type value int

const (
	none value = iota
	must
	may
)

// options are all that exports(5) has, and client, which is where the names of clients stand in /etc/exports. A word that
// is not obeyed says so: who writes it expects something.
var options = map[string]option{
	"ro":               {set: func(e *Export, _ string) error { e.ReadOnly = true; return nil }},
	"rw":               {set: func(e *Export, _ string) error { e.ReadOnly = false; return nil }},
	"root_squash":      {set: func(e *Export, _ string) error { e.Squash = server.SquashRoot; return nil }},
	"no_root_squash":   {set: func(e *Export, _ string) error { e.Squash = server.SquashNone; return nil }},
	"all_squash":       {set: func(e *Export, _ string) error { e.Squash = server.SquashAll; return nil }},
	"no_all_squash":    {set: noAllSquash},
	"secure":           {set: func(e *Export, _ string) error { e.Secure = true; return nil }},
	"insecure":         {set: func(e *Export, _ string) error { e.Secure = false; return nil }},
	"anonuid":          {value: must, set: func(e *Export, v string) (err error) { e.AnonUID, err = id(v); return err }},
	"anongid":          {value: must, set: func(e *Export, v string) (err error) { e.AnonGID, err = id(v); return err }},
	"xprtsec":          {value: must, set: func(e *Export, v string) (err error) { e.XprtSec, err = xprtSec(v); return err }},
	"sec":              {value: must, set: sec},
	"client":           {value: must, set: client},
	"fsid":             {value: must, set: fsid},
	"mountpoint":       {value: may, set: func(e *Export, v string) error { e.Mountpoint = cmp.Or(v, e.Path); return nil }},
	"mp":               {value: may, set: func(e *Export, v string) error { e.Mountpoint = cmp.Or(v, e.Path); return nil }},
	"sync":             {},
	"async":            {says: "as sync: what a client wants to be on the disk is there when it is told so"},
	"wdelay":           {says: "no write is delayed"},
	"no_wdelay":        {},
	"subtree_check":    {},
	"no_subtree_check": {says: "what has moved out of the export is out of reach all the same"},
	"hide":             {set: func(e *Export, _ string) error { e.NoHide = false; return nil }},
	"nohide":           {set: func(e *Export, _ string) error { e.NoHide = true; return nil }},
	"crossmnt":         {says: "reaches file systems of disks; what else is mounted below is exported by itself, with nohide", set: func(e *Export, _ string) error { e.Cross = true; return nil }},
	"nocrossmnt":       {set: func(e *Export, _ string) error { e.Cross = false; return nil }},
	"acl":              {},
	"no_acl":           {says: "clients see ACLs all the same (NFSACL)"},
	"rdirplus":         {},
	"nordirplus":       {says: "READDIRPLUS is answered to those who ask"},
	"auth_nlm":         {},
	"secure_locks":     {},
	"no_auth_nlm":      {says: "who may neither read nor write a file may not lock it"},
	"insecure_locks":   {says: "who may neither read nor write a file may not lock it"},
	"no_pnfs":          {},
	"pnfs":             {not: "it belongs to NFSv4.1, and this server speaks NFSv3"},
	"refer":            {value: must, not: "it belongs to NFSv4, and this server speaks NFSv3"},
	"replicas":         {value: must, not: "it belongs to NFSv4, and this server speaks NFSv3"},
	"security_label":   {not: "it belongs to NFSv4.2, and this server speaks NFSv3"},
	"reexport":         {value: must, not: "its numbers of file systems are not needed here: fsid=NAME names one"},
}

// Options returns the words of exports(5) in order, each with what it means here where that is not what it means there.
func Options() (list [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		o := options[name]
		if o.not != "" {
			o.says = "refused: " + o.not
		}
		list = append(list, [2]string{name, o.says})
	}
	return list
}

// optionOf returns the option that a word is.
func optionOf(word string) (o option, name, value string, ok bool) {
	name, value, given := strings.Cut(word, "=")
	o, ok = options[name]
	return o, name, value, ok && (o.value == may || given == (o.value == must))
}

// apply changes e, whose path is set, as options say. In a file, clients have sections of their own.
func apply(e *Export, words []string, clients bool) error {
	for _, word := range words {
		if word == "" {
			continue
		}
		o, name, value, ok := optionOf(word)
		switch {
		case !ok || name == "client" && !clients:
			return fmt.Errorf("%q is no option: want one of exports(5), as ro, no_root_squash or anonuid=N", word)
		case o.not != "":
			return fmt.Errorf("%s: %s", word, o.not)
		}
		if says := name + ": " + o.says; o.says != "" && !slices.Contains(e.Says, says) {
			e.Says = append(slices.Clip(e.Says), says)
		}
		if o.set == nil {
			continue
		}
		if err := o.set(e, value); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func noAllSquash(e *Export, _ string) error {
	if e.Squash == server.SquashAll {
		e.Squash = server.SquashRoot
	}
	return nil
}

func client(e *Export, value string) error {
	if len(e.Clients) == 0 {
		e.Clients = []server.Client{{}}
	}
	return addWho(&e.Clients[0], value)
}

func fsid(e *Export, value string) error {
	if e.FSID = value; value == "" {
		return errors.New("want a name for the file system")
	}
	return nil
}

// sec reads ways in which users are known, separated by colons, the best first.
func sec(e *Export, value string) error {
	e.Sec = nil
	for word := range strings.SplitSeq(value, ":") {
		f, ok := map[string]xdr.AuthFlavor{"sys": xdr.AuthSys, "krb5": server.Krb5, "krb5i": server.Krb5i, "krb5p": server.Krb5p}[word]
		if !ok || slices.Contains(e.Sec, f) {
			return errors.New("want sys, krb5, krb5i or krb5p, or several with colons between them, the best first")
		}
		e.Sec = append(e.Sec, f)
	}
	return nil
}

// xprtSec reads ways to protect connections, separated by colons.
func xprtSec(text string) (all server.XprtSec, err error) {
	for word := range strings.SplitSeq(text, ":") {
		switch word {
		case "none":
			all |= server.XprtNone
		case "tls":
			all |= server.XprtTLS
		case "mtls":
			all |= server.XprtMTLS
		default:
			return 0, errors.New("want none, tls or mtls, or several with colons between them")
		}
	}
	return all, nil
}

// id reads an anonymous id. 0 is root's, whom squashing is to keep out, and 2^32-1 is nobody's.
func id(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n == 1<<32-1 {
		return 0, fmt.Errorf("want a number from 1 to %d", uint32(1<<32-2))
	}
	return uint32(n), nil
}

// addWho adds clients to a group: an address, a network, or the name of a host, a pattern of names or @netgroup, or tls: and
// what a certificate says.
func addWho(c *server.Client, text string) error {
	if name, ok := strings.CutPrefix(text, "tls:"); ok {
		if strings.TrimSpace(name) != name || name == "" || strings.Contains(name, "*") {
			return fmt.Errorf("%q: want tls: and a whole DNS name or URI of the certificate (subjectAltName), or its subject, as CN=host,O=org", text)
		}
		c.Certs = append(c.Certs, name)
		return nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap()
		c.Nets = append(c.Nets, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	addr, mask, ok := strings.Cut(text, "/")
	if !ok {
		name := func(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune(`"'(),=`, r) }
		if _, err := path.Match(text, ""); err != nil || text == "" || text == "@" || strings.Trim(text, "0123456789.:") == "" ||
			strings.ContainsFunc(text, func(r rune) bool { return !name(r) }) {
			return fmt.Errorf("%q: want a host, *.example.com, @netgroup, an address, or a network, as 192.0.2.0/24", text)
		}
		c.Names = append(c.Names, text)
		return nil
	}
	if m, err := netip.ParseAddr(mask); err == nil && m.Is4() { // 192.0.2.0/255.255.255.0
		ones, _ := net.IPMask(m.AsSlice()).Size()
		if mask = strconv.Itoa(ones); ones == 0 && !m.IsUnspecified() {
			mask = "?" // not a row of ones
		}
	}
	p, err := netip.ParsePrefix(addr + "/" + mask)
	if err != nil {
		return fmt.Errorf("%q: want a network, as 192.0.2.0/24", text)
	}
	c.Nets = append(c.Nets, p.Masked())
	return nil
}

// file is the content of a file.
type file struct {
	Principals map[string]string
	Realms     []string
	Export     []struct {
		Path    string
		Options string
		Client  []struct {
			Networks []string
			Options  string
		}
	}
}

// File is what a file says. Its exports have no FS yet.
type File struct {
	Exports []Export
	// Principals are users of this machine, by principals of Kerberos.
	Principals map[string]string
	// Realms are those whose principals are the users of their names; nil: those of the keytab.
	Realms []string
}

// Load reads a file.
func Load(name string, base Export) (*File, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f file
	md, err := toml.NewDecoder(bytes.NewReader(b)).Decode(&f)
	if err != nil {
		return nil, &Error{name, strings.TrimPrefix(err.Error(), "toml: ")}
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return nil, &Error{name, fmt.Sprintf("%q is not known: there are realms, principals and export; an export has path, options and client, a client networks and options", extra[0].String())}
	}
	if len(f.Export) == 0 {
		return nil, &Error{name, "no [[export]]"}
	}
	var list []Export
	for i := range f.Export {
		x := &f.Export[i]
		e := base
		e.Path = x.Path
		if !filepath.IsAbs(e.Path) {
			return nil, &Error{name, fmt.Sprintf("path %q of an export is not absolute", e.Path)}
		}
		if err := apply(&e, strings.Split(x.Options, ","), false); err != nil {
			return nil, &Error{name + ": " + e.Path, err.Error()}
		}
		for _, c := range x.Client {
			own := e
			if err := apply(&own, strings.Split(c.Options, ","), false); err != nil {
				return nil, &Error{name + ": " + e.Path, err.Error()}
			}
			if !own.sameDir(&e) {
				return nil, &Error{name + ": " + e.Path, "fsid, mountpoint, crossmnt and nohide are options of the export, not of a client"}
			}
			if len(c.Networks) == 0 {
				return nil, &Error{name + ": " + e.Path, "a client has no networks"}
			}
			sc := own.group(server.Client{})
			for _, n := range c.Networks {
				if err := addWho(&sc, n); err != nil {
					return nil, &Error{name + ": " + e.Path, err.Error()}
				}
			}
			e.Clients = append(e.Clients, sc)
		}
		list = append(list, e)
	}
	return &File{list, f.Principals, f.Realms}, nil
}

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
