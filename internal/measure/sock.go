package measure

import (
	"context"
	"net"
	"time"
)

// Listen opens a loopback listener whose connections use reno, where the system lets us
// choose: the default of some systems paces the loopback interface.
func Listen() (net.Listener, error) {
	lc := net.ListenConfig{Control: Reno}
	return lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
}

// Dial connects over a socket of the same kind, within 5 s.
func Dial(addr string) (net.Conn, error) {
	d := net.Dialer{Control: Reno, Timeout: 5 * time.Second}
	return d.Dial("tcp", addr)
}
