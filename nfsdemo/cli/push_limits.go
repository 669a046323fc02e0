package cli

import (
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport/push"
)

// pushLimits are the flags that limit the push logs. Zeros are the defaults.
type pushLimits struct {
	logs, clientLogs   int
	space, clientSpace size // of rings
}

func (l *pushLimits) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&l.logs, "push-logs", 0, "most push logs of all clients together; 0: 1024")
	flags.IntVar(&l.clientLogs, "client-push-logs", 0, "most push logs made for one client address; 0: an eighth of all, -1: no separate limit")
	flags.Var(&l.space, "push-space", "memory that the rings of all push logs may take; 0: 1G")
	flags.Var(&l.clientSpace, "client-push-space", "most of it for one client address; 0: a quarter of all, -1: no separate limit")
}

// check refuses limits without --push-log, and limits out of range.
func (l *pushLimits) check(dir string) error {
	if dir == "" && *l != (pushLimits{}) {
		return usagef("--push-logs, --push-space, --client-push-logs and --client-push-space need --push-log DIR: add it")
	}
	err := checkSettings([]setting{
		{"push-logs", l.logs, 1, maxCount, false},
		{"client-push-logs", l.clientLogs, 1, maxCount, true},
	})
	if err != nil {
		return err
	}
	return checkSizes(
		sizeRange{"push-space", l.space, 1 << 20, maxSize, false},
		sizeRange{"client-push-space", l.clientSpace, 1 << 20, maxSize, true},
	)
}

// limits converts the flags.
func (l *pushLimits) limits() push.Limits {
	return push.Limits{
		MaxLogs: l.logs, ClientLogs: l.clientLogs, MaxOctets: uint64(l.space), ClientOctets: int64(l.clientSpace),
	}
}
