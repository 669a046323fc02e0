package nfsclient

import (
	"context"
	"path"
	"strings"
)

// maxHops is the largest number of symbolic links to follow in one path, as on Linux.
const maxHops = 40

// Lookup finds the file of a path. It follows all symbolic links.
func (c *Client) Lookup(ctx context.Context, p string) (*Node, error) {
	return c.walk(ctx, p, true)
}

// LookupLink is Lookup, but does not follow a symbolic link at the end.
func (c *Client) LookupLink(ctx context.Context, p string) (*Node, error) {
	return c.walk(ctx, p, false)
}

// LookupParent finds the directory that contains p, and returns the last name of p, which need not
// exist. The root of the export has no parent.
func (c *Client) LookupParent(ctx context.Context, p string) (dir *Node, name string, err error) {
	p = path.Clean("/" + p)
	if p == c.export || !within(c.export, p) {
		return nil, "", &ExportError{Path: path.Dir(p), Exports: c.exportList()}
	}
	dir, err = c.Lookup(ctx, path.Dir(p))
	return dir, path.Base(p), err
}

// exportList returns the exports, as far as they are known.
func (c *Client) exportList() []string {
	if len(c.exports) == 0 {
		return []string{c.export}
	}
	return c.exports
}

// walk is a path that is being looked up: the directories passed so far, for "..", and the remaining
// names.
type walk struct {
	passed []*Node // passed[0] is the root
	rest   []string
	hops   int
}

// walk looks up p name by name (RFC 1813 Section 3.3.3: LOOKUP takes a single name and does not follow
// symbolic links).
func (c *Client) walk(ctx context.Context, p string, followLast bool) (*Node, error) {
	p = path.Clean("/" + p)
	if !within(c.export, p) {
		return nil, &ExportError{Path: p, Exports: c.exportList()}
	}
	w := walk{passed: []*Node{c.Root()}, rest: names(strings.TrimPrefix(p, c.export))}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		here := w.passed[len(w.passed)-1]
		if name == ".." {
			if len(w.passed) == 1 {
				return nil, pathErr("lookup", p, ErrOutside)
			}
			w.passed = w.passed[:len(w.passed)-1]
			continue
		}
		n, err := c.Child(ctx, here, name)
		if err != nil {
			return nil, err
		}
		if n.IsSymlink() && (followLast || len(w.rest) > 0) {
			if err := c.follow(ctx, &w, n); err != nil {
				return nil, pathErr("lookup", n.Path, err)
			}
			continue
		}
		w.passed = append(w.passed, n)
	}
	return w.passed[len(w.passed)-1], nil
}

// follow puts the target of a symbolic link in front of the remaining names. Choice: an absolute
// target is a path on the server, like those of URLs, and must be in the export.
func (c *Client) follow(ctx context.Context, w *walk, link *Node) error {
	if w.hops++; w.hops > maxHops {
		return ErrTooManyLinks
	}
	target, err := c.ReadLink(ctx, link)
	if err != nil {
		return err
	}
	if path.IsAbs(target) {
		if !within(c.export, path.Clean(target)) {
			return ErrOutside
		}
		w.passed = w.passed[:1]
		target = strings.TrimPrefix(path.Clean(target), c.export)
	}
	w.rest = append(names(target), w.rest...)
	return nil
}

// names splits a path, without empty elements and ".".
func names(p string) []string {
	var list []string
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			list = append(list, name)
		}
	}
	return list
}
