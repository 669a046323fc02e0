// Command gonfsclient copies a file from an NFS/RDMA server to standard output with an
// unmodified github.com/willscott/go-nfs-client: the client dials TCP for itself, so a
// proxy inside the process gives it a loopback port behind which the calls leave by
// RDMA.
//
//	go run . -server 127.0.0.1:20049 /srv/data /notes.txt
//
// It is a module of its own, so that users of stag do not depend on that client.
package main
