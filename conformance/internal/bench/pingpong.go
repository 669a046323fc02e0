package bench

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// pingSend is the payload of a ping, octets, and pingFPDU what it is on the wire: 2 of
// length, 18 of DDP header, 4 of CRC.
const (
	pingSend = 64
	pingFPDU = pingSend + 24
)

// ponger answers every Send with one of the same size.
type ponger struct{ wrs [1]verbs.WR }

func (p *ponger) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	p.wrs[0] = verbs.WR{Op: verbs.OpSend, Body: m.Data}
	_ = c.Post(p.wrs[:]) // a broken connection shows at the other end
}
func (p *ponger) HandleClose(*rdmap.Conn, error) {}

// servePong is the far end of sendPingPong.
func servePong(nc net.Conn) {
	c := rdmap.Server(nc, &rdmap.Config{Handler: new(ponger)})
	defer c.Close()
	if c.Handshake(context.Background()) == nil {
		_ = c.Serve() // the other end hangs up
	}
}

// pinger completes one wait for each Send that comes.
type pinger struct{ w rdmap.Waiter }

func (p *pinger) HandleRecv(c *rdmap.Conn, _ *verbs.Message) {
	c.PostRecv(1)
	p.w.Complete(nil)
}
func (p *pinger) HandleClose(*rdmap.Conn, error) {}

// sendPingPong returns the median round trip of n Sends and their answers, in microseconds.
func sendPingPong(addr string, n int) (float64, error) {
	nc, err := dial(addr)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	p := new(pinger)
	c := rdmap.Client(nc, &rdmap.Config{Handler: p})
	defer c.Close()
	if err := c.Handshake(ctx); err != nil {
		return 0, err
	}
	wrs := []verbs.WR{{Op: verbs.OpSend, Body: make([]byte, pingSend)}}
	return medianOf(n, func() error {
		p.w.Reset()
		if err := c.Post(wrs); err != nil {
			return err
		}
		return c.Wait(ctx, &p.w)
	})
}

// pingRound is one round of raw exchanges and one of Sends.
func pingRound(p Peer, n int) (base, ours float64, err error) {
	c, err := dial(p.Ping)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if base, err = pingPong(c, pingFPDU, pingFPDU, n); err != nil {
		return 0, 0, err
	}
	ours, err = sendPingPong(p.Pong, n)
	return base, ours, err
}
