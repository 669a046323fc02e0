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

// ready says that a server serves, with the line that systemctl status shows; failed leaves another line there.
func ready(status string)  { notify(sd.SdNotifyReady + "\nSTATUS=" + status) }
func failed(status string) { notify("STATUS=" + status) }

// stopping says that a server ends.
func stopping() { notify(sd.SdNotifyStopping) }

// hangups returns a channel of SIGHUPs, which ask a server to read its configuration again.
func hangups() (ch <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reload runs f after a SIGHUP. What a server does not understand it does not take: it goes on with the
// configuration that it has. f returns the exports.
func (l *serverLog) reload(f func() (string, error)) {
	if f == nil {
		l.Info("nothing to reload: the configuration is in the flags")
		return
	}
	notify(sd.SdNotifyReloading)
	exports, err := f()
	if err != nil {
		l.Error("not reloaded: the configuration stays as it was", "error", err)
		ready("not reloaded: " + err.Error() + "; serving what was served before")
		return
	}
	l.Info("reloaded", "exports", exports)
	ready("serving " + exports)
}
