package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/push"
)

// pushFlags are the flags of commands that can write by push.
type pushFlags struct {
	on     bool
	secret string // file; "": in the user's configuration directory
}

func (f *pushFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "push", false, "append to a push log at the server instead of calling WRITE, if the server has one")
	cmd.Flags().StringVar(&f.secret, "push-secret", "", "with --push: `file` with the secret of the log, made if it does not exist (default: one per server in your configuration directory)")
}

// check refuses flags that make no sense, before the command connects anywhere.
func (f *pushFlags) check(to string) error {
	switch {
	case f.secret != "" && !f.on:
		return usagef("--push-secret needs --push: add it")
	case f.on && !nfsclient.IsURL(to):
		return usagef("--push is for copying to a server, but %s is local: leave it out", to)
	}
	return nil
}

// config opens the secret and returns the configuration that Dial needs for a server.
func (f *pushFlags) config(u *nfsclient.URL) (*nfsclient.PushConfig, *secretFile, error) {
	var s *secretFile
	var err error
	if f.secret != "" {
		s, err = openSecret(f.secret)
	} else {
		s, err = userSecret(u.Addr())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--push: %w", err)
	}
	return &nfsclient.PushConfig{Log: s.name, Secret: s.secret}, s, nil
}

// copyJSON is a line of cp --json.
type copyJSON struct {
	Source string `json:"source"`
	Path   string `json:"path"`             // where it was copied to
	Octets int64  `json:"octets"`           // copied
	Pushed int64  `json:"pushed"`           // how many of them by push
	Rung   string `json:"rung,omitempty"`   // how: native, append; write for WRITE and COMMIT
	Level  string `json:"level,omitempty"`  // how durable: placed, persistent
	Reason string `json:"reason,omitempty"` // why not all was pushed, with --push
}

// refused sets the hint if the server has refused the secret of the log of by.
func (c *copier) refused(by *nfsclient.Client, why error) {
	if !errors.Is(why, push.StatusRefused) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.s.conns {
		if conn.c == by && conn.secret != nil {
			c.pushed.hint = conn.secret.refused()
		}
	}
}

// wrote counts, and with --json prints, how a file was written.
func (c *copier) wrote(src *source, to string, remote bool, p *nfsclient.Pushed) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.push.on {
		c.pushed.add(p)
	}
	if !c.a.json {
		return nil
	}
	j := copyJSON{Source: src.show, Path: to, Octets: p.Size, Pushed: p.Pushed}
	if remote {
		j.Rung, j.Level = "write", "persistent"
	}
	if p.Pushed > 0 {
		j.Rung, j.Level = p.Rung.String(), p.Level.String()
	}
	if p.Why != nil {
		j.Reason = reasonOf(p.Why)
	}
	return c.a.printJSON(j)
}

// pushTotals sums up a run with --push.
type pushTotals struct {
	files, octets  int64 // by push
	level          string
	rung           push.Rung
	plain, written int64  // by WRITE and COMMIT
	why            error  // why the first of them was not pushed
	hint           string // what to do about it; "" if unknown
}

func (t *pushTotals) add(p *nfsclient.Pushed) {
	if p.Why == nil || p.Pushed > 0 {
		t.files++
		t.octets += p.Pushed
		t.rung = max(t.rung, p.Rung)
		if l := p.Level.String(); p.Pushed > 0 && (t.level == "" || l == "placed") {
			t.level = l
		}
	}
	if p.Why != nil {
		t.plain++
		t.written += p.Size - p.Pushed
		if t.why == nil {
			t.why = p.Why
		}
	}
}

// report says on standard error how the files were written.
func (t *pushTotals) report(a *app) {
	if t.octets > 0 {
		fmt.Fprintf(a.stderr, "nfsdemo: pushed %s of %s: %v, %s\n", amount(t.octets), files(t.files), t.rung, t.level)
	}
	if t.plain > 0 {
		fmt.Fprintf(a.stderr, "nfsdemo: wrote %s of %s by WRITE and COMMIT: %s\n", amount(t.written), files(t.plain), reasonOf(t.why))
	}
	if t.hint != "" {
		fmt.Fprintf(a.stderr, "nfsdemo: %s\n", t.hint)
	}
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// reasonOf says why a file was not pushed, without its path and the text of ErrNoPush.
func reasonOf(err error) string {
	err = bare(err)
	if u, ok := err.(interface{ Unwrap() []error }); ok && errors.Is(err, nfsclient.ErrNoPush) {
		if causes := u.Unwrap(); len(causes) == 2 {
			err = causes[1]
		}
	}
	if errors.Is(err, push.ErrNoProgram) {
		return "the server does not accept pushed writes (start nfsdemo serve with --push-log DIR)"
	}
	return explain(err)
}
