// Package cli holds the commands of nfsdemo: a server of a local directory, a demonstration of
// both ends in one process, and Unix tools for nfs+rdma:// and nfs:// URLs.
//
//	nfsdemo demo                              both ends over loopback, no root
//	nfsdemo serve --export DIR                NFSv3 over RDMA for Linux and for us
//	nfsdemo proxy --to URL                    RDMA in front of NFS/TCP servers, or the reverse
//	nfsdemo ls|cat|cp|stat|mkdir|rm|mv|df     a client without a mount
//	nfsdemo log dump|verify|cat|tail|replies  what is in the logs of a server or a client
//
// All commands follow the same conventions. Data go to standard output, as JSON with --json.
// Everything else goes to standard error, with a progress bar if that is a terminal. An error is
// one line that says what to do. The exit status is 0; 1 if something failed; 2 if the command
// line or a URL was not understood. An interrupt ends a command cleanly, with 128 and the number
// of its signal: 130 after Ctrl-C. It makes a server drain and stop, with status 0; a second one
// aborts it.
//
// Nothing here knows RPC or RDMA: the commands use nfsdemo/nfsclient, nfsdemo/server and
// transport.
package cli
