package cli

import (
	"bytes"
	"io"
	"log/slog"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stag-rdma/stag/transport"
	"go.uber.org/zap"
)

// levels are the values of --log.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// serverLog makes the log of a server, as --log and --log-format say, and that of the packages below, to the same place: at the
// default level a line for its start and end, for clients that come and go, for mounts, and for everything that is wrong. With
// JSON, everything that the command prints on standard error from now on becomes a line of the log.
func (a *app) serverLog() (*slog.Logger, *zap.Logger, error) {
	h, err := a.logHandler("info")
	if err != nil {
		return nil, nil, err
	}
	l := slog.New(h)
	if a.logFormat == formatJSON {
		a.stderr = lineWriter{l, a.name() + ": "}
	}
	return l, transport.SlogLogger(h), nil
}

// lineWriter logs what is written to it.
type lineWriter struct {
	log    *slog.Logger
	prefix string // of the lines, which the log does without
}

// Write takes whole lines.
func (w lineWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.log.Info(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), w.prefix))
	}
	return len(p), nil
}

// logger builds the logger of a client that --log asks for; nil without it.
func (a *app) logger() (*zap.Logger, error) {
	if a.log == "" {
		return nil, nil //nolint:nilnil // no logger is a valid logger everywhere
	}
	h, err := a.logHandler("")
	if err != nil {
		return nil, err
	}
	return transport.SlogLogger(h), nil
}

// Values of --log-format.
const (
	formatText = "text"
	formatJSON = "json"
)

// logHandler writes to standard error.
func (a *app) logHandler(level string) (slog.Handler, error) {
	if a.log != "" {
		level = a.log
	}
	least, ok := levels[level]
	if !ok {
		return nil, usagef("--log %q: want debug, info, warn or error", a.log)
	}
	opts := &slog.HandlerOptions{Level: least}
	switch a.logFormat {
	case formatJSON:
		return slog.NewJSONHandler(a.stderr, opts), nil
	case formatText, "":
	default:
		return nil, usagef("--log-format %q: want text or json", a.logFormat)
	}
	out := a.stderr
	journald, err := journal.StderrIsJournalStream()
	if journald = journald && err == nil; journald {
		out = journalWriter{out}
	}
	opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case a.Key != slog.TimeKey || len(groups) > 0:
			return a
		case journald: // which has the time
			return slog.Attr{}
		}
		return slog.String(a.Key, a.Value.Time().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	return slog.NewTextHandler(out, opts), nil
}

// journalWriter writes the level of each line as the journal understands it (sd-daemon(3)).
type journalWriter struct{ w io.Writer }

// Write takes one line of a slog.TextHandler, which begins with its level.
func (j journalWriter) Write(p []byte) (int, error) {
	for _, l := range []struct{ level, prefix string }{{"DEBUG", "<7>"}, {"INFO", "<6>"}, {"WARN", "<4>"}, {"ERROR", "<3>"}} {
		if rest, ok := bytes.CutPrefix(p, []byte("level="+l.level+" ")); ok {
			_, err := j.w.Write(append([]byte(l.prefix), rest...))
			return len(p), err
		}
	}
	return j.w.Write(p)
}
