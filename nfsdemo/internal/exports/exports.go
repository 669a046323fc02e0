package exports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/stag-rdma/stag/nfsdemo/server"
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
}

// Defaults are the options of an export that gives none.
func Defaults() Export { return Export{Export: server.Export{Secure: true}} }

// Parse reads a directory and its options, separated by commas. Only words at the end that are options count, so
// that a path may have commas. Options that are not given are those of base.
func Parse(text string, base Export) (Export, error) {
	words := strings.Split(text, ",")
	first := len(words)
	for first > 1 && isOption(words[first-1]) {
		first--
	}
	e := base
	e.Path = strings.Join(words[:first], ",")
	if e.Path == "" {
		return e, &Error{text, "names no directory"}
	}
	err := apply(&e, words[first:], true)
	if err != nil {
		return e, &Error{text, err.Error()}
	}
	return e, nil
}

// isOption reports whether a word begins like an option.
func isOption(word string) bool {
	name, _, value := strings.Cut(word, "=")
	switch name {
	case "ro", "rw", "root_squash", "no_root_squash", "all_squash", "secure", "insecure":
		return !value
	case "anonuid", "anongid", "client", "fsid", "xprtsec":
		return value
	case "mountpoint", "mp":
		return true
	}
	return false
}

// apply changes e, whose path is set, as options say. In a file, clients have sections of their own.
func apply(e *Export, words []string, clients bool) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case word == "":
		case !isOption(word) || name == "client" && !clients:
			return fmt.Errorf("%q is no option: want ro, rw, root_squash, no_root_squash, all_squash, anonuid=N, anongid=N, secure, insecure, xprtsec=none:tls:mtls, fsid=NAME or mountpoint", word)
		case name == "ro", name == "rw":
			e.ReadOnly = name == "ro"
		case name == "root_squash":
			e.Squash = server.SquashRoot
		case name == "no_root_squash":
			e.Squash = server.SquashNone
		case name == "all_squash":
			e.Squash = server.SquashAll
		case name == "secure", name == "insecure":
			e.Secure = name == "secure"
		case name == "anonuid":
			e.AnonUID, err = id(value)
		case name == "anongid":
			e.AnonGID, err = id(value)
		case name == "xprtsec":
			e.XprtSec, err = xprtSec(value)
		case name == "fsid":
			if e.FSID = value; value == "" {
				err = errors.New("want a name for the file system")
			}
		case name == "mountpoint", name == "mp":
			e.Mountpoint = cmp.Or(value, e.Path)
		case name == "client":
			var p netip.Prefix
			p, err = network(value)
			e.Allow = append(slices.Clone(e.Allow), p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
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

// network reads a network or an address.
func network(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q: want a network, as 192.0.2.0/24, or an address", text)
	}
	return p.Masked(), nil
}

// file is the content of a file.
type file struct {
	Export []struct {
		Path    string
		Options string
		Client  []struct {
			Networks []string
			Options  string
		}
	}
}

// Load reads a file. Its exports have no FS yet.
func Load(name string, base Export) ([]Export, error) {
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
		return nil, &Error{name, fmt.Sprintf("%q is not known: an export has path, options and client, a client networks and options", extra[0].String())}
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
			if own.FSID != e.FSID || own.Mountpoint != e.Mountpoint {
				return nil, &Error{name + ": " + e.Path, "fsid and mountpoint are options of the export, not of a client"}
			}
			if len(c.Networks) == 0 {
				return nil, &Error{name + ": " + e.Path, "a client has no networks"}
			}
			sc := server.Client{ReadOnly: own.ReadOnly, Squash: own.Squash, AnonUID: own.AnonUID, AnonGID: own.AnonGID, Secure: own.Secure, XprtSec: own.XprtSec}
			for _, n := range c.Networks {
				p, err := network(n)
				if err != nil {
					return nil, &Error{name + ": " + e.Path, err.Error()}
				}
				sc.Nets = append(sc.Nets, p)
			}
			e.Clients = append(e.Clients, sc)
		}
		list = append(list, e)
	}
	return list, nil
}
