// Command gonfsclient copies a file from an NFS/RDMA server to standard output with an unmodified
// github.com/willscott/go-nfs-client. That client dials TCP itself, so a proxy inside the process
// gives it a loopback port, and sends its calls on by RDMA.
//
//	go run . -server 127.0.0.1:20049 /srv/data /notes.txt
//
// It is a separate module, so that users of stag do not depend on that client.
package main
