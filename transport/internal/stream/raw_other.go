//go:build !linux

package stream

import (
	"io"
	"net"
	"time"
)

// rawWriter is for Linux.
type rawWriter struct{}

func (*rawWriter) open(*Writer)               {}
func (*rawWriter) can() bool                  { return false }
func (*rawWriter) write(time.Time, int) error { return nil }

// rawReader is for Linux.
type rawReader struct{ io.Reader }

func newRawReader(net.Conn) *rawReader { return nil }
