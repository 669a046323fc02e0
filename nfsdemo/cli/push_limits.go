package cli

import (
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport/push"
)

// pushLimits are the flags that limit the push logs. Zeros are the defaults.
type pushLimits struct {
	logs, clientLogs   int
	space, clientSpace int // MiB of rings
}

func (l *pushLimits) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&l.logs, "push-logs", 0, "most push logs of all clients together; 0: 1024")
	flags.IntVar(&l.clientLogs, "client-push-logs", 0, "most push logs made for one client address; 0: an eighth of all, -1: no separate limit")
	flags.IntVar(&l.space, "push-space", 0, "`MiB` that the rings of all push logs may take; 0: 1024")
	flags.IntVar(&l.clientSpace, "client-push-space", 0, "`MiB` of these for one client address; 0: a quarter of all, -1: no separate limit")
}

// check refuses limits without --push-log, and limits out of range.
func (l *pushLimits) check(dir string) error {
	if dir == "" && *l != (pushLimits{}) {
		return usagef("--push-logs, --push-space, --client-push-logs and --client-push-space need --push-log DIR: add it")
	}
	return checkSettings([]setting{
		{"push-logs", l.logs, 1, maxCount, false},
		{"push-space", l.space, 1, maxMiB, false},
		{"client-push-logs", l.clientLogs, 1, maxCount, true},
		{"client-push-space", l.clientSpace, 1, maxMiB, true},
	})
}

// limits converts the flags.
func (l *pushLimits) limits() push.Limits {
	p := push.Limits{
		MaxLogs: l.logs, ClientLogs: l.clientLogs, MaxOctets: uint64(l.space) << 20, ClientOctets: int64(l.clientSpace),
	}
	if l.clientSpace > 0 {
		p.ClientOctets <<= 20
	}
	return p
}
