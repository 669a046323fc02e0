package rpc

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// hint says what a user can do about err, "" if unknown.
func hint(err error) string {
	if h := startupHint(err); h != "" {
		return h
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is the server running, and is this its port?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "is this the server's address?"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another server has this port; choose another one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "is this an address of this machine, with a port free?"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 may need privileges; choose another one"
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return "write host:port; NFS/RDMA is usually on port 20049"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		if dns.Err == "unknown port" {
			return "write a port as a number"
		}
		return "is the host's name spelled right?"
	}
	return ""
}

// startupHint is hint for errors before RPC begins.
func startupHint(err error) string {
	if _, ok := errors.AsType[*mpa.FormatError](err); ok {
		return "the peer is not an iWARP peer; NFS/RDMA is usually on port 20049, NFS/TCP on 2049"
	}
	if _, ok := errors.AsType[*verbs.RejectError](err); ok {
		return "it may not serve this address, or may be full: see its log"
	}
	e, ok := errors.AsType[*verbs.ConnError](err)
	if !ok || e.Op != "handshake" {
		return ""
	}
	switch {
	case errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF), errors.Is(e.Err, syscall.ECONNRESET):
		return "the peer hung up during the MPA start-up; is it an iWARP peer, and is this the NFS/RDMA port?"
	case errors.Is(e.Err, os.ErrDeadlineExceeded):
		return "the peer does not answer the MPA start-up; is this the NFS/RDMA port?"
	}
	return ""
}
