package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/xdr"
)

// replyJSON is a line of log replies --json.
type replyJSON struct {
	Seq      uint64 `json:"seq,omitempty"` // of the reply; none: not answered
	Epoch    uint32 `json:"epoch"`
	XID      uint32 `json:"xid"`
	Prog     uint32 `json:"prog"`
	Vers     uint32 `json:"vers"`
	Proc     uint32 `json:"proc"`
	Name     string `json:"name"` // of the procedure
	Digest   string `json:"digest"`
	Answered bool   `json:"answered"`
	Result   string `json:"result,omitempty"`
	Reply    []byte `json:"reply,omitempty"` // base64
}

// logRepliesCmd is the command log replies.
func (a *app) logRepliesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "replies DIR", Short: "Print the calls of a client that were answered, and those that were not",
		Long: `replies prints the logs of a client that was run with --replies DIR: the replies that
		it had not used yet when it ended, and the calls that were not answered. After a clean
		end there are none of either.`,
		Example: "  nfsdemo log replies ~/replies\n  nfsdemo log replies --json ~/replies | jq 'select(.answered | not)'",
		Args:    nArgs(1, 1, "one directory"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.logReplies(args[0]) },
	}
}

func (a *app) logReplies(dir string) error {
	st, err := inspectReplies(dir)
	if err != nil {
		return err
	}
	if !a.json {
		if _, err := fmt.Fprintf(a.stdout, "%10s %6s %8s  %-8s  %s\n", "SEQ", "EPOCH", "XID", "CALL", "RESULT"); err != nil {
			return err
		}
	}
	for _, r := range st.Replies {
		j := replyJSON{
			Seq: r.Seq, Epoch: r.Epoch, XID: r.XID, Prog: r.Prog, Vers: r.Vers, Proc: r.Proc, Answered: true,
			Digest: hex.EncodeToString(r.Digest[:]), Result: resultText(r), Reply: r.Reply,
		}
		if err := a.printReply(&j); err != nil {
			return err
		}
	}
	for _, i := range st.Unanswered {
		j := replyJSON{Epoch: i.Epoch, XID: i.XID, Prog: i.Prog, Vers: i.Vers, Proc: i.Proc, Digest: hex.EncodeToString(i.Digest[:])}
		if err := a.printReply(&j); err != nil {
			return err
		}
	}
	return nil
}

// inspectReplies reads the logs of a directory.
func inspectReplies(dir string) (*replies.State, error) {
	var parts [2]*io.SectionReader
	for i, name := range [...]string{repliesFile, callsFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no reply logs here: name a directory that was used with --replies", dir)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		parts[i] = io.NewSectionReader(f, 0, st.Size())
	}
	st, err := replies.Inspect(parts[0], parts[1])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return st, nil
}

func (a *app) printReply(j *replyJSON) error {
	j.Name = procText(j.Prog, j.Vers, j.Proc)
	if a.json {
		return a.printJSON(j)
	}
	seq, result := "-", "not answered"
	if j.Answered {
		seq, result = fmt.Sprint(j.Seq), j.Result
	}
	_, err := fmt.Fprintf(a.stdout, "%10s %6d %08x  %-8s  %s\n", seq, j.Epoch, j.XID, j.Name, result)
	return err
}

// procText names a procedure.
func procText(prog, vers, proc uint32) string {
	if prog == nfs3.Program && vers == nfs3.Version {
		return nfs3.Proc(proc).String()
	}
	return fmt.Sprintf("%d.%d.%d", prog, vers, proc)
}

// replyText describes a call and its reply.
func replyText(r *replies.Record) string {
	return fmt.Sprintf("%s, call %d.%08x: %s", procText(r.Prog, r.Vers, r.Proc), r.Epoch, r.XID, resultText(r))
}

// resultText describes a reply.
func resultText(r *replies.Record) string {
	d := xdr.NewDecoder(r.Reply)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil {
		return "cannot be decoded: " + err.Error()
	}
	if err := h.Err(); err != nil {
		return err.Error()
	}
	if r.Prog != nfs3.Program {
		return fmt.Sprintf("%d octets", d.Len())
	}
	return nfs3.Status(d.Uint32()).String()
}
