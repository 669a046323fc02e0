package accept_test

import (
	"context"
	"fmt"
	"net"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
)

// A server that lives when others take all descriptors, and in which one host has two places
// for connections that have not said who they are.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	var held []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		held = append(held, c)
	}
	var strangers accept.Strangers
	var inside []net.Addr
	left := len(held)
	_ = accept.Serve(context.Background(), l, func(c net.Conn) { // until l is closed
		if strangers.Enter(c.RemoteAddr(), 2) {
			fmt.Println("come in,", peeraddr.Host(c.RemoteAddr()))
			inside = append(inside, c.RemoteAddr())
		} else {
			fmt.Println("too many of", peeraddr.Host(c.RemoteAddr()))
		}
		_ = c.Close() // nothing was said on it
		if left--; left == 0 {
			_ = l.Close()
		}
	})
	for _, a := range inside {
		strangers.Leave(a) // it has said who it is, or ended
	}
	for _, c := range held {
		_ = c.Close() // nothing was said on it
	}
	// Output:
	// come in, 127.0.0.1
	// come in, 127.0.0.1
	// too many of 127.0.0.1
}
