package cli

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
)

// clientFlags are the flags of every command that talks to a server.
type clientFlags struct {
	uid, gid     int64
	timeout      time.Duration
	callTimeout  time.Duration
	maxNames     int64 // of a tree
	inFlight     int
	block        int64
	reservedPort bool
	crc          transport.CRCMode
	stats        bool
	profile      profile
	reconnect    time.Duration
	replies      string // directory of reply logs; "": none
	tls          tlsFiles
	sec          string // how the server knows who calls
}

// defaultReconnect outlasts the restart of a server, and lets a command end when none comes. Choice.
const defaultReconnect = time.Minute

// addClientFlags declares them on a command.
func (a *app) addClientFlags(cmd *cobra.Command) {
	f, flags := &a.client, cmd.Flags()
	f.uid, f.gid, f.inFlight, f.block = -1, -1, nfsclient.DefaultInFlight, nfsclient.DefaultMaxBlock
	flags.Var(number[int64]{&f.uid, -1, math.MaxUint32, 0}, "uid", "user `id` to act as (AUTH_SYS); -1: yours")
	flags.Var(number[int64]{&f.gid, -1, math.MaxUint32, 0}, "gid", "group `id` to act as; -1: yours")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "give up connecting and mounting after this `time`")
	flags.DurationVar(&f.reconnect, "reconnect", defaultReconnect, "when a connection is lost, try to reconnect for this `time`; 0: fail at once (the first connection is tried once, within --timeout)")
	flags.DurationVar(&f.callTimeout, "call-timeout", nfsclient.DefaultCallTimeout, "give up a call that the server does not answer within this `time`; 0: wait as long as the connection lasts")
	flags.Var(number[int]{&f.inFlight, 1, maxCount, 0}, "in-flight", "how many READs or WRITEs of one file run at a time")
	flags.Var(number[int64]{&f.block, 1, maxSize, inOctets}, "block", "largest READ or WRITE")
	flags.BoolVar(&f.reservedPort, "reserved-port", false, "call from a port below 1024 (needs privileges)")
	if a.card == nil {
		addCRCFlag(cmd, &f.crc, "ask the server for it")
	}
	addProfileFlag(cmd, &f.profile)
	f.tls.clientFlags(cmd)
	flags.StringVar(&f.sec, "sec", "sys", "how the server knows you: sys (--uid), or by the Kerberos ticket of kinit: krb5, krb5i (nobody changes a call) or krb5p (nor reads it)")
	flags.BoolVar(&f.stats, "stats", false, "at the end, print the transport's counters on standard error")
}

// addTreeFlag declares the flag of commands that go through directories.
func (a *app) addTreeFlag(cmd *cobra.Command) {
	a.client.maxNames = nfsclient.DefaultMaxTree
	cmd.Flags().Var(number[int64]{&a.client.maxNames, 1, 1 << 40, 0}, "max-names", "give up when there are more than `N` names below the arguments, since a broken server may list them without end")
}

// clientConfig is what the flags ask for.
func (a *app) clientConfig() (*nfsclient.Config, error) {
	f := &a.client
	switch {
	case f.timeout <= 0:
		return nil, usagef("--timeout %v: want a positive time", f.timeout)
	case f.callTimeout < 0:
		return nil, usagef("--call-timeout %v: want a positive time, or 0 for no limit", f.callTimeout)
	case f.reconnect < 0:
		return nil, usagef("--reconnect %v: want a positive time, or 0 to fail when the connection is lost", f.reconnect)
	}
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	cfg := &nfsclient.Config{
		Transport: &transport.Config{Logger: log, RFC5666: f.profile.settings(), Startup: transport.Startup{Timeout: f.timeout, CRC: f.crc}},
		InFlight:  f.inFlight, MaxBlock: int(min(f.block, maxCount)),
		ReservedPort: f.reservedPort, DialTimeout: f.timeout, Tap: a.capture.Load().TapClient, DialRDMA: a.dialRDMA(),
		Reconnect: f.reconnect, CallTimeout: f.callTimeout, MaxTree: f.maxNames,
	}
	if f.callTimeout == 0 {
		cfg.CallTimeout = -1
	}
	if cfg.Transport.TLS.Config, err = f.tls.client(); err != nil {
		return nil, err
	}
	if _, err := secOf(f.sec, ""); err != nil {
		return nil, err
	}
	cfg.Cred = nfsclient.ProcessCred()
	if f.uid >= 0 || f.gid >= 0 {
		cfg.Cred.GIDs = nil // they belong to another user
	}
	if f.uid >= 0 {
		cfg.Cred.UID = uint32(f.uid)
	}
	if f.gid >= 0 {
		cfg.Cred.GID = uint32(f.gid)
	}
	return cfg, nil
}

// overURLs is the RunE of a command that does f with each of its URLs.
func (a *app) overURLs(f func(s *session, ctx context.Context, arg string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.session()
		if err != nil {
			return err
		}
		defer s.close()
		return a.each(cmd.Context(), args, func(arg string) error { return f(s, cmd.Context(), arg) })
	}
}

// session holds the connections of one command: one per export.
type session struct {
	a     *app
	cfg   *nfsclient.Config
	conns []conn
}

// conn is a client and the URL it was dialed with.
type conn struct {
	at *nfsclient.URL
	c  *nfsclient.Client

	replies *repliesDir // nil: none
}

// session starts with no connection.
func (a *app) session() (*session, error) {
	cfg, err := a.clientConfig()
	return &session{a: a, cfg: cfg}, err
}

// open returns a client for u, dialing if there is none.
func (s *session) open(ctx context.Context, u *nfsclient.URL) (*nfsclient.Client, error) {
	for _, c := range s.conns {
		if c.c.Serves(c.at, u) {
			return c.c, nil
		}
	}
	cfg := *s.cfg
	tc := *cfg.Transport
	tc.GSS.Client, _ = secOf(s.a.client.sec, u.Host) // checked before
	cfg.Transport = &tc
	logs, err := s.openReplies(u, &cfg)
	if err != nil {
		return nil, err
	}
	c, err := nfsclient.Dial(ctx, u, &cfg)
	if err != nil {
		logs.close()
		return nil, &dialError{u: u, err: err, reservedPort: s.cfg.ReservedPort}
	}
	s.conns = append(s.conns, conn{u, c, logs})
	s.a.tell(c.Replies())
	return c, nil
}

// close closes the connections and, with --stats, prints their counters.
func (s *session) close() {
	for _, c := range s.conns {
		if s.a.client.stats {
			printStats(s.a.stderr, c.at.Addr(), c.c.Stats())
		}
		_ = c.c.Close() // every answer was received
		c.replies.close()
	}
	s.conns = nil
}

// remote is a resolved argument.
type remote struct {
	arg string
	cfg *nfsclient.Config
	u   *nfsclient.URL
	c   *nfsclient.Client
	n   *nfsclient.Node
}

// lookup connects to the server of a URL and finds the file. With link, it does not follow a
// symbolic link at the end.
func (s *session) lookup(ctx context.Context, arg string, link bool) (*remote, error) {
	r, err := s.remote(ctx, arg)
	if err != nil {
		return nil, err
	}
	find := r.c.Lookup
	if link {
		find = r.c.LookupLink
	}
	if r.n, err = find(ctx, r.u.Path); err != nil {
		return nil, r.fail(err)
	}
	if r.u.DirHint && !r.n.IsDir() {
		return nil, r.fail(errors.New("not a directory, but the URL ends in /"))
	}
	return r, nil
}

// remote connects to the server of a URL.
func (s *session) remote(ctx context.Context, arg string) (*remote, error) {
	u, err := nfsclient.ParseURL(arg)
	if err != nil {
		return nil, err
	}
	c, err := s.open(ctx, u)
	if err != nil {
		return nil, err
	}
	return &remote{arg: arg, cfg: s.cfg, u: u, c: c}, nil
}

// fail names the argument in front of err.
func (r *remote) fail(err error) error { return argErr(r.arg, r.u.Path, err) }

// each runs f for every argument. It reports errors as they occur and continues with the next
// argument, as Unix tools do.
func (a *app) each(ctx context.Context, args []string, f func(arg string) error) error {
	failed := false
	for _, arg := range args {
		err := f(arg)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if len(args) == 1 {
				return err
			}
			a.report(err)
			failed = true
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// argErr puts an argument in front of an error. The path in the argument is path; argErr removes
// it from the error, so that it is not said twice.
func argErr(arg, path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && pe.Path == path {
		err = pe.Err
	}
	return &argError{arg, err}
}

// argError is an error about an argument.
type argError struct {
	arg string
	err error
}

func (e *argError) Error() string { return e.arg + ": " + e.err.Error() }
func (e *argError) Unwrap() error { return e.err }

// dialError reports a server that cannot be used.
type dialError struct {
	u            *nfsclient.URL
	err          error
	reservedPort bool // was asked for
}

func (e *dialError) Error() string { return e.u.String() + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }
