package cli

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// lister is one run of ls.
type lister struct {
	a                   *app
	s                   *session
	long, all, deep, it bool // -l, -a, -R, -d
	human               bool
	titles              bool // print "dir:" before a listing
	blank               bool // print a blank line before the next title
	now                 time.Time
	partial             bool  // a directory was reported and skipped
	found               int64 // names so far
	held                int   // octets of names whose directories are still listed
}

// lsCmd is the command ls.
func (a *app) lsCmd() *cobra.Command {
	l := &lister{a: a}
	cmd := &cobra.Command{
		Use:   "ls [-l] [-R] [-a] [-d] URL...",
		Short: "List directories",
		Long: `ls lists directories, sorted by name, except for very large ones, whose names are printed as
the server lists them. With --json it prints one object per line, one for
each file; path_base64 and target_base64 hold names that are not UTF-8.`,
		Example: `  nfsdemo ls nfs+rdma://127.0.0.1/srv/data
  nfsdemo ls -l -R 'nfs://fileserver/export/src?mountport=20048'
  nfsdemo ls -R --json nfs+rdma://127.0.0.1/srv/data | jq -r 'select(.size > 1e9).path'`,
		Args: nArgs(1, -1, "one URL or more"),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVarP(&l.long, "long", "l", false, "print mode, links, owner, group, size and time of last change")
	cmd.Flags().BoolVarP(&l.deep, "recursive", "R", false, "also list the directories below")
	cmd.Flags().BoolVarP(&l.all, "all", "a", false, "also list names that begin with a dot")
	cmd.Flags().BoolVarP(&l.it, "directory", "d", false, "list the directory itself, not its contents")
	cmd.Flags().BoolVarP(&l.human, "human", "h", false, "print sizes with units")
	cmd.Flags().Bool("help", false, "print this help") // -h is taken
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per file")
	a.addTreeFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// run lists the arguments.
func (l *lister) run(ctx context.Context, args []string) (err error) {
	if l.s, err = l.a.session(); err != nil {
		return err
	}
	defer l.s.close()
	l.titles, l.now = len(args) > 1 || l.deep, time.Now()
	return l.a.each(ctx, args, func(arg string) error { return l.list(ctx, arg) })
}

// list lists one argument.
func (l *lister) list(ctx context.Context, arg string) error {
	r, err := l.s.lookup(ctx, arg, l.long || l.it || l.a.json)
	if err != nil {
		return err
	}
	if r.n.IsSymlink() && r.u.DirHint {
		if r.n, err = r.c.Lookup(ctx, r.u.Path); err != nil {
			return r.fail(err)
		}
	}
	if !r.n.IsDir() || l.it {
		err = l.print(ctx, r.c, []*nfsclient.Node{r.n}, func(n *nfsclient.Node) string { return n.Path })
	} else {
		l.found, l.partial = 0, false
		err = l.dir(ctx, r.c, r.n)
	}
	if err != nil {
		return r.fail(err)
	}
	if l.partial {
		return errReported
	}
	return nil
}

// Files that ls holds to sort them may take sortMost octets of memory, in all the directories that it is in.
// The rest of a larger directory is printed in the server's order, at least sortLeast files at a time.
const (
	sortMost  = 32 << 20
	sortLeast = 256
)

// dir lists a directory, and with -R those below.
func (l *lister) dir(ctx context.Context, c *nfsclient.Client, dir *nfsclient.Node) error {
	var list []*nfsclient.Node
	size, whole, titled := 0, true, false
	flush := func() error {
		if !titled {
			l.title(dir)
		}
		titled = true
		return l.print(ctx, c, list, (*nfsclient.Node).Name)
	}
	for n, err := range l.names(ctx, c, dir) {
		if err != nil {
			return err
		}
		if l.found++; l.found > l.a.client.maxNames {
			return &fs.PathError{Op: "ls", Path: dir.Path, Err: nfsclient.ErrTreeEndless}
		}
		list = append(list, n)
		size += 256 + len(n.Path) + len(n.FH)
		if l.held+size <= sortMost || len(list) < sortLeast {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		list, size, whole = list[:0], 0, false
	}
	if whole {
		slices.SortFunc(list, func(a, b *nfsclient.Node) int { return strings.Compare(a.Name(), b.Name()) })
	}
	if err := flush(); err != nil || !l.deep {
		return err
	}
	if !whole || l.held+size > sortMost { // of many levels, even short lists are too much to keep
		clear(list) // now the names are listed again, one page at a time
		return l.below(ctx, c, l.names(ctx, c, dir))
	}
	l.held += size
	defer func() { l.held -= size }()
	return l.below(ctx, c, sound(list))
}

// below lists the directories among some names.
func (l *lister) below(ctx context.Context, c *nfsclient.Client, names iter.Seq2[*nfsclient.Node, error]) error {
	for n, err := range names {
		if err != nil {
			return err
		}
		if !n.IsDir() {
			continue
		}
		if err := l.dir(ctx, c, n); endsTree(err) || ctx.Err() != nil {
			return err
		} else if err != nil {
			l.partial = true
			l.a.report(err)
		}
	}
	return nil
}

// names returns the names in a directory that are to be listed.
func (l *lister) names(ctx context.Context, c *nfsclient.Client, dir *nfsclient.Node) iter.Seq2[*nfsclient.Node, error] {
	return func(yield func(*nfsclient.Node, error) bool) {
		for n, err := range c.Entries(ctx, dir) {
			if err == nil && !l.all && strings.HasPrefix(n.Name(), ".") {
				continue
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// title prints the name of a directory before its list.
func (l *lister) title(dir *nfsclient.Node) {
	if !l.titles || l.a.json {
		return
	}
	if l.blank {
		fmt.Fprintln(l.a.stdout)
	}
	l.blank = true
	fmt.Fprintf(l.a.stdout, "%s:\n", quoteName(dir.Path))
}

// print prints files in one of three forms.
func (l *lister) print(ctx context.Context, c *nfsclient.Client, list []*nfsclient.Node, name func(*nfsclient.Node) string) error {
	out := bufio.NewWriter(l.a.stdout)
	var rows [][]string
	for _, n := range list {
		target := ""
		if n.IsSymlink() && (l.long || l.a.json) {
			var err error
			if target, err = c.ReadLink(ctx, n); err != nil {
				return err
			}
		}
		switch {
		case l.a.json:
			if err := l.a.printJSON(newFileJSON(n, target)); err != nil {
				return err
			}
		case l.long:
			rows = append(rows, l.row(n, name(n), target))
		default:
			fmt.Fprintln(out, quoteName(name(n)))
		}
	}
	printColumns(out, rows, 1, true, " ")
	return out.Flush()
}

// row is a line of ls -l.
func (l *lister) row(n *nfsclient.Node, name, target string) []string {
	size := fmt.Sprint(n.Attr.Size)
	if l.human {
		size = ops.Octets(n.Attr.Size)
	}
	if target != "" {
		name += " -> " + target
	}
	return []string{
		modeString(n.Mode()), fmt.Sprint(n.Attr.Nlink), fmt.Sprint(n.Attr.UID), fmt.Sprint(n.Attr.GID),
		size, listTime(n.ModTime(), l.now), quoteName(name),
	}
}

// base is the last element of a URL's path.
func base(u *nfsclient.URL) string { return path.Base(u.Path) }
