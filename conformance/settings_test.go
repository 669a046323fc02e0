package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// closedListener is a listener for servers that must not begin to serve.
type closedListener struct{ t *testing.T }

func (l closedListener) Accept() (net.Conn, error) {
	l.t.Error("the server has begun to accept")
	return nil, net.ErrClosed
}
func (closedListener) Close() error   { return nil }
func (closedListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestSettings: a setting out of range is an error that names it, its value and its range, whatever
// package it belongs to.
func TestSettings(t *testing.T) {
	ctx := t.Context()
	config := func(c transport.Config) func() error { return c.Check }
	caller := func(c redial.Config) func() error {
		c.Dial = func(context.Context) (redial.Conn, error) { return nil, net.ErrClosed }
		return func() error { _, err := redial.New(&c); return err }
	}
	log := func(o commitlog.Options) func() error {
		return func() error { return commitlog.Create(region.Bytes(make([]byte, 1<<16)), &o) }
	}
	session := func(c push.Config) func() error {
		return func() error {
			c.Secret = push.NewSecret()
			_, err := push.Dial(ctx, nil, "log", &c)
			return err
		}
	}
	logs := func(l push.Limits) func() error {
		return func() error {
			s := &push.Server{Limits: l}
			err := s.Load()
			if again := s.Serve(closedListener{t}); !errors.Is(again, err) {
				t.Errorf("%+v: Serve: %v", l, again)
			}
			var resp rpc.Response
			s.ServeRPC(ctx, &rpc.Request{CallHeader: xdr.CallHeader{Prog: push.Program, Vers: push.Version}}, &resp)
			if resp.Stat == 0 {
				t.Errorf("%+v: a call was served", l)
			}
			return errors.Join(err, s.Close(ctx))
		}
	}
	reader := func(c push.ReaderConfig) func() error {
		return func() error { _, err := push.NewReader(nil, "log", push.Secret{1}, &c); return err }
	}
	client := func(c replies.Config) func() error {
		return func() error { _, err := replies.Open(&c); return err }
	}
	pusher := func(p *replies.Pusher) func() error {
		return func() error {
			err := p.Serve(closedListener{t})
			var resp rpc.Response
			p.ServeRPC(ctx, &rpc.Request{CallHeader: xdr.CallHeader{Prog: replies.Program, Vers: replies.Version}}, &resp)
			if resp.Stat == 0 {
				t.Error("a call was served")
			}
			return errors.Join(err, p.Close())
		}
	}
	nfs := func(c nfsclient.Config) func() error {
		return func() error {
			_, err := nfsclient.Dial(ctx, &nfsclient.URL{Host: "127.0.0.1", Port: 1}, &c)
			return err
		}
	}
	serve := func(c server.Config) func() error {
		return func() error {
			if c.Exports == nil {
				c.Exports = []server.Export{{Path: "/x", FS: mem.New(nil)}}
			}
			_, err := server.New(&c)
			return err
		}
	}
	directory := func(c dir.Config) func() error {
		return func() error { _, err := dir.New(t.TempDir(), &c); return err }
	}
	requester := func(c rpcrdma.RequesterConfig) func() error {
		return func() error { _, err := rpcrdma.NewRequester(c); return err }
	}
	responder := func(c rpcrdma.ResponderConfig) func() error {
		return func() error { _, err := rpcrdma.NewResponder(c); return err }
	}
	const more = ", want more than 0, or 0 for the default"
	for _, x := range []struct {
		prefix string
		set    func() error
		want   string
	}{
		{"transport", config(transport.Config{Credits: 5000}), "Credits is 5000, want 1 to 4096, or 0 for the default"},
		{"redial", caller(redial.Config{Patience: -1}), "Patience is -1ns" + more},
		{"redial", caller(redial.Config{MinDelay: -1}), "MinDelay is -1ns" + more},

		{"rpcrdma", requester(rpcrdma.RequesterConfig{Profile: 2}), "Profile is 2, want 0 to 1"},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{MaxRead: -1}), "MaxRead is -1, want 1 to 1073741824, or 0 for the default"},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{Align: -1}), "Align is -1" + more},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{AlignMin: -1}), "AlignMin is -1" + more},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{Credits: 1 << 31}), "Credits is 2147483648, want 1 to 2147483647, or 0 for the default"},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{SendSize: 67}), "SendSize is 67, want 68 to 1048576, or 0 for the default"},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{RecvSize: 2 << 20}), "RecvSize is 2097152, want 68 to 1048576, or 0 for the default"},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{ReduceMin: -1}), "ReduceMin is -1" + more},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{SinkMin: -1}), "SinkMin is -1" + more},
		{"rpcrdma", requester(rpcrdma.RequesterConfig{GatherMin: -1}), "GatherMin is -1" + more},
		{
			"rpcrdma",
			requester(rpcrdma.RequesterConfig{Limits: chunks.Limits{MaxOctets: 1<<30 + 1}}),
			"Limits.MaxOctets is 1073741825, want 1 to 1073741824, or 0 for the default",
		},
		{"rpcrdma", responder(rpcrdma.ResponderConfig{MaxExposed: -1}), "MaxExposed is -1" + more},
		{"rpcrdma", responder(rpcrdma.ResponderConfig{MaxExposedOctets: -1}), "MaxExposedOctets is -1" + more},
		{"rpcrdma", responder(rpcrdma.ResponderConfig{ExposeMin: -1}), "ExposeMin is -1" + more},
		{"rpcrdma", responder(rpcrdma.ResponderConfig{SendSize: -1}), "SendSize is -1, want 68 to 1048576, or 0 for the default"},
		{
			"rpcrdma",
			responder(rpcrdma.ResponderConfig{Limits: chunks.Limits{MaxReadSegments: -1}}),
			"Limits.MaxReadSegments is -1, want 1 to 1048576, or 0 for the default",
		},
		{
			"rpcrdma",
			responder(rpcrdma.ResponderConfig{Limits: chunks.Limits{MaxWriteChunks: -1}}),
			"Limits.MaxWriteChunks is -1, want 1 to 1048576, or 0 for the default",
		},
		{
			"rpcrdma",
			responder(rpcrdma.ResponderConfig{Limits: chunks.Limits{MaxSegments: -1}}),
			"Limits.MaxSegments is -1, want 1 to 1048576, or 0 for the default",
		},

		{"commitlog", log(commitlog.Options{Mode: 9}), "Mode is 9, want 1 to 2, or 0 for the default"},

		{`push: open "log"`, session(push.Config{Best: 3}), "Best is 3, want 1 to 2, or 0 for the default"},
		{`push: open "log"`, session(push.Config{MaxRecord: -1}), "MaxRecord is -1, want 1 to 1073741824, or 0 for the default"},
		{"push", logs(push.Limits{MaxLogs: -1}), "Limits.MaxLogs is -1" + more},
		{"push", logs(push.Limits{Capacity: 64}), "Limits.Capacity is 64, want 4096 or more, or 0 for the default"},
		{"push", logs(push.Limits{MaxCapacity: 64}), "Limits.MaxCapacity is 64, want 4096 or more, or 0 for the default"},
		{"push", logs(push.Limits{Capacity: 8192, MaxCapacity: 4096}), "Limits.Capacity is 8192, want at most Limits.MaxCapacity, 4096"},
		{`push: read "log"`, reader(push.ReaderConfig{Octets: 4 << 20}), "Octets is 4194304, want 1 to 2097152, or 0 for the default"},
		{`push: read "log"`, reader(push.ReaderConfig{Wait: -1}), "Wait is -1ns" + more},

		{"replies", client(replies.Config{}), "Memory must be set"},
		{"replies", pusher(&replies.Pusher{MaxQueued: -1}), "MaxQueued is -1" + more},
		{"replies", pusher(&replies.Pusher{MaxClients: -1}), "MaxClients is -1" + more},

		{"nfsclient", nfs(nfsclient.Config{InFlight: -1}), "InFlight is -1" + more},
		{"nfsclient", nfs(nfsclient.Config{Parallel: -1}), "Parallel is -1" + more},
		{"nfsclient", nfs(nfsclient.Config{MaxTree: -1}), "MaxTree is -1" + more},
		{"nfsclient", nfs(nfsclient.Config{MaxBlock: -1}), "MaxBlock is -1" + more},
		{"nfsclient", nfs(nfsclient.Config{CommitEvery: -1}), "CommitEvery is -1" + more},
		{"nfsclient", nfs(nfsclient.Config{DialTimeout: -1}), "DialTimeout is -1ns" + more},
		{"nfsclient", nfs(nfsclient.Config{Reconnect: -1}), "Reconnect is -1ns" + more},
		{"transport", nfs(nfsclient.Config{Transport: &transport.Config{Fanout: -1}}), "Fanout is -1, want 1 to 256, or 0 for the default"},

		{"server", serve(server.Config{MaxIO: -1}), "MaxIO is -1, want 4096 to 1073741824, or 0 for the default"},
		{"server", serve(server.Config{MaxIO: 5000}), "MaxIO is 5000, want a multiple of 4096"},
		{"server: export /x", serve(server.Config{Exports: []server.Export{{Path: "/x", FS: mem.New(nil), Squash: -1}}}), "Squash is -1, want 0 to 2"},
		{
			"server: export /x",
			serve(server.Config{Exports: []server.Export{{Path: "/x", FS: mem.New(nil), Clients: []server.Client{{Squash: 3}}}}}),
			"Clients[0].Squash is 3, want 0 to 2",
		},
		{"dir", directory(dir.Config{MaxFiles: -1}), "MaxFiles is -1" + more},
		{"dir", directory(dir.Config{MaxHeld: -1}), "MaxHeld is -1" + more},
		{"dir", directory(dir.Config{MaxNodes: -1}), "MaxNodes is -1" + more},
		{"dir", directory(dir.Config{Key: make([]byte, 31)}), "Key has 31 octets, want 32 or more"},
		{"proxy", func() error { return (&proxy.Proxy{DialTimeout: -1}).Serve(closedListener{t}) }, "DialTimeout is -1ns" + more},
	} {
		err := x.set()
		want := x.prefix + ": " + rpc.ErrConfig.Error() + ": " + x.want
		if !errors.Is(err, rpc.ErrConfig) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
