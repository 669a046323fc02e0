package cli

import (
	"os"
	"os/signal"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd about the state of a server, if the unit wants to know (Type=notify). It is
// nobody's error if systemd is not there.
func notify(state string) { _, _ = sd.SdNotify(false, state) }

// ready says that a server serves, and stopping that it ends.
func ready()    { notify(sd.SdNotifyReady) }
func stopping() { notify(sd.SdNotifyStopping) }

// hangups returns a channel of SIGHUPs, which ask a server to read its configuration again.
func hangups() (ch <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reload runs f after a SIGHUP. What a server does not understand it does not take: it goes on with the
// configuration that it has.
func (l *serverLog) reload(f func() error) {
	if f == nil {
		l.Info("nothing to reload: the configuration is in the flags")
		return
	}
	notify(sd.SdNotifyReloading)
	defer ready()
	if err := f(); err != nil {
		l.Error("not reloaded: the configuration stays as it was", "error", err)
		return
	}
	l.Info("reloaded")
}
