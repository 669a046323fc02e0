package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
)

// controlFlags are the flags of exports.
type controlFlags struct {
	socket                    string
	unexport, kick, freeLocks string
}

// exportsCmd is the command exports.
func (a *app) exportsCmd() *cobra.Command {
	f := &controlFlags{}
	cmd := &cobra.Command{
		Use:   "exports",
		Short: "See and steer the server of this machine",
		Long: `exports asks the server that runs on this machine what it serves, to whom, who has mounted it,
and which locks are held. It must be run by root, or by the user of the server. A client that
crashed never unmounts: the list of mounts is what clients have said, also before the server
started again. Of a file that is locked it shows the inode: find DIR -inum N.

--unexport stops serving a directory at once, so that its disk can be unmounted; it is served
again when the server reads its configuration again (SIGHUP) or starts. --kick closes the
connections of a client, and forgets what it has mounted; it may come back unless the exports
no longer name it. --free-locks takes the locks of a client that will not come back, by its
address or its name.

The status is 0, 1 if there is no such server, export, client or lock, and 2 if the
command line was not understood.`,
		Example: `  nfsdemo exports
  nfsdemo exports --json
  nfsdemo exports --unexport /srv/data && umount /srv/data
  nfsdemo exports --kick 192.0.2.7
  nfsdemo exports --free-locks client7.example.com
  nfsdemo exports --control /run/other/control`,
		Args: nArgs(0, 0, "no arguments, only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := ""
			for _, name := range []string{"unexport", "kick", "free-locks"} {
				if !cmd.Flags().Changed(name) {
					continue
				}
				if action != "" {
					return usagef("--%s and --%s: give one of them", action, name)
				}
				action = name
			}
			what := f.unexport + f.kick + f.freeLocks
			if action != "" && what == "" {
				return usagef("--%s: want a %s", action, cmp.Or(map[string]string{"unexport": "directory"}[action], "client"))
			}
			return a.exports(cmd.Context(), f.socket, action, what)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.socket, "control", "", "`path` of the server's socket; \"\": control in $STATE_DIRECTORY, or in nfsdemo in $XDG_STATE_HOME, /var/lib (root) or ~/.local/state")
	flags.StringVar(&f.unexport, "unexport", "", "stop serving this `directory`")
	flags.StringVar(&f.kick, "kick", "", "close the connections of this `client`, an address or a name, and forget its mounts")
	flags.StringVar(&f.freeLocks, "free-locks", "", "free the locks of this `client`, an address or what it calls itself")
	flags.BoolVar(&a.json, "json", false, "print the list as JSON")
	return cmd
}

// exports shows what the server says, or has it do something.
func (a *app) exports(ctx context.Context, at, action, what string) error {
	if at == "" {
		dir := stateDir()
		if dir == "" {
			return usagef("the place of the socket is not known: --control PATH")
		}
		at = filepath.Join(dir, controlName)
	}
	if action != "" {
		if action == "unexport" {
			abs, err := filepath.Abs(what)
			if err != nil {
				return err
			}
			what = filepath.ToSlash(abs)
		}
		did, err := askControl(ctx, at, http.MethodPost, "/"+action+"?of="+url.QueryEscape(what))
		if err == nil {
			fmt.Fprint(a.stdout, quoteName(strings.TrimSuffix(string(did), "\n"))+"\n")
		}
		return err
	}
	text, err := askControl(ctx, at, http.MethodGet, "/status.json")
	if err != nil {
		return err
	}
	var r exportsJSON
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: the server says what this version of nfsdemo does not understand: %w", at, err)
	}
	if a.json {
		r.Mounts, r.Locks = append([]ops.Mount{}, r.Mounts...), append([]ops.Lock{}, r.Locks...) // [], not null
		return a.printJSON(&r)
	}
	a.printExports(&r)
	return nil
}

// askControl makes a request at the control socket.
func askControl(ctx context.Context, at, method, what string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ops.Timeout+time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+what, http.NoBody)
	if err != nil {
		return nil, err
	}
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", at)
	}}
	res, err := tr.RoundTrip(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no server at %s: start it, be root if it is root's, or name its socket with --control", at)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: permission denied: be root, or the user of the server", at)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, bareListen(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return text, err
}

// maxReport is more than a report has, in octets.
const maxReport = 64 << 20

// exportsJSON is the output of exports --json, a part of ops.Report.
type exportsJSON struct {
	Exports   []ops.Export  `json:"exports"`
	Mounts    []ops.Mount   `json:"mounts"`
	Clients   []ops.Client  `json:"clients"`
	Locks     []ops.Lock    `json:"locks"`
	LockCount int           `json:"lock_count"` // Locks has no more than 1000 of them
	Lockd     string        `json:"lock_manager,omitempty"`
	Problems  []ops.Problem `json:"problems"`
}

// printExports prints for people.
func (a *app) printExports(r *exportsJSON) {
	conns := make(map[string]int)
	for _, c := range r.Clients {
		if host, _, err := net.SplitHostPort(c.Address); err == nil {
			conns[host]++
		}
	}
	mounted := func(export string) (rows [][]string) {
		for _, m := range r.Mounts {
			if m.Export == export {
				rows = append(rows, []string{"  " + m.Client, m.Path, m.Since.Local().Format("2006-01-02 15:04"), strconv.Itoa(conns[m.Client]) + " connections"})
			}
		}
		return rows
	}
	for _, e := range r.Exports {
		if len(e.Clients) < 2 {
			fmt.Fprintf(a.stdout, "%s  %s\n", quoteName(e.Path), quoteName(e.Mode))
		} else {
			fmt.Fprintf(a.stdout, "%s\n", quoteName(e.Path))
			for _, c := range e.Clients {
				fmt.Fprintf(a.stdout, "  %s\n", quoteName(c))
			}
		}
		if e.Away != "" {
			fmt.Fprintf(a.stdout, "  not served now: %s\n", quoteName(e.Away))
		}
		a.printRows(mounted(e.Path))
	}
	if rows := mounted(""); len(rows) > 0 {
		fmt.Fprintln(a.stdout, "exported no longer, but mounted:")
		a.printRows(rows)
	}
	if len(r.Exports)+len(r.Mounts) == 0 {
		fmt.Fprintln(a.stdout, "nothing is exported")
	}
	if r.Lockd != "" {
		fmt.Fprintf(a.stdout, "locks %s\n", quoteName(r.Lockd))
	}
	var rows [][]string
	for _, l := range r.Locks {
		how, end := "shared", "end"
		if l.Exclusive {
			how = "exclusive"
		}
		if l.Waits {
			how += ", waits"
		}
		if l.End != backend.LockEnd {
			end = strconv.FormatUint(l.End, 10)
		}
		rows = append(rows, []string{"  " + l.Client, l.Name, fmt.Sprintf("process %d", l.Process), how, fmt.Sprintf("octets %d-%s", l.Start, end), fmt.Sprintf("inode %d of %s", l.Inode, cmp.Or(l.Export, "?"))})
	}
	a.printRows(rows)
	if more := r.LockCount - len(r.Locks); more > 0 {
		fmt.Fprintf(a.stdout, "  and %d more\n", more)
	}
}

// printRows prints columns, in which nothing that a client has said moves the cursor.
func (a *app) printRows(rows [][]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = quoteName(row[i])
		}
	}
	printColumns(a.stdout, rows, 9, true, " ") // all of them to the left
}
