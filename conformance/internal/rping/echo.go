package rping

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stag-rdma/stag/rdmap"
)

// Echo runs the server on c, whose handshake is done, until the client closes the connection, and returns
// the number of pings answered. The client's close is not an error, unless it comes in the middle of a ping.
// Echo does not close c.
func Echo(ctx context.Context, c *rdmap.Conn) (pings int, err error) {
	buf := make([]byte, MaxSize)
	for ; ; pings++ {
		source, err := recvInfo(ctx, c)
		if errors.Is(err, io.EOF) {
			return pings, nil
		}
		if err == nil {
			err = echo(ctx, c, source, buf)
		}
		if err != nil {
			return pings, fmt.Errorf("ping %d: %w", pings+1, err)
		}
	}
}

// echo answers one ping whose first message has been read.
func echo(ctx context.Context, c *rdmap.Conn, source Info, buf []byte) error {
	data, err := slice(buf, source)
	if err != nil {
		return err
	}
	if err := c.Read(ctx, data, source.RKey, source.Addr); err != nil {
		return err
	}
	if err := c.Send(ctx, Info{}.Append(nil)); err != nil {
		return err
	}
	sink, err := recvInfo(ctx, c)
	if err != nil {
		return err
	}
	if sink.Len != source.Len {
		return fmt.Errorf("%w: a sink of %d octets for a source of %d", ErrProtocol, sink.Len, source.Len)
	}
	if err := c.Write(ctx, data, sink.RKey, sink.Addr); err != nil {
		return err
	}
	return c.Send(ctx, Info{}.Append(nil))
}

// slice returns the part of buf that has the size of a buffer of the client.
func slice(buf []byte, info Info) ([]byte, error) {
	if info.Len == 0 || uint64(info.Len) > uint64(len(buf)) {
		return nil, fmt.Errorf("%w: a buffer of %d octets, want 1 to %d", ErrProtocol, info.Len, len(buf))
	}
	return buf[:info.Len], nil
}

func recvInfo(ctx context.Context, c *rdmap.Conn) (Info, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return Info{}, err
	}
	return ParseInfo(m.Data)
}
