// Package cli holds the commands of nfsdemo: a server of a local directory, a
// demonstration of both ends in one process, and Unix tools over nfs+rdma:// and
// nfs:// URLs.
//
//	nfsdemo demo                              both ends over loopback, no root
//	nfsdemo serve --export DIR                NFSv3 over RDMA for Linux and for us
//	nfsdemo proxy --to URL                    RDMA in front of NFS/TCP servers, or the reverse
//	nfsdemo ls|cat|cp|stat|mkdir|rm|mv|df     a client without a mount
//	nfsdemo log dump|verify|push|replies      what is in the logs of a server or a client
//	nfsdemo bench push                        durable writes, measured
//
// Conventions, the same for all of them: data go to standard output, and as JSON
// with --json; everything else goes to standard error; a progress bar is drawn
// when standard error is a terminal. An error is one line that says what to do.
// The exit status is 0, 1 when something failed, 2 when the command line or a URL
// was not understood. An interrupt ends a command cleanly with status 1; it drains
// and stops a server, and a second one aborts it.
//
// Nothing here knows RPC or RDMA: the commands use nfsdemo/nfsclient and the
// servers of nfsdemo/nfs3 and transport.
package cli
