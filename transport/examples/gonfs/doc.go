// Command gonfs serves files from memory over NFS/RDMA with an unmodified
// github.com/willscott/go-nfs: the server was written for TCP and gets a listener of
// package transport instead.
//
//	go run . -listen 127.0.0.1:20049
//	nfsdemo cp notes.txt nfs+rdma://127.0.0.1/
//
// It is a separate module, so that users of stag do not depend on that server.
package main
