package decode

import (
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// RPC program numbers seen on RPC-over-RDMA connections besides NFS and MOUNT.
const (
	progRPCBind  = 100000
	progNLM      = 100021
	progNFSACL   = 100227
	progCCP      = 100417     // rdmaconfig, RFC 5666 Section 6
	progCallback = 0x40000000 // the NFSv4 callback program as Linux numbers it
)

// programName returns the usual name of a program, or its number.
func programName(prog uint32) string {
	switch prog {
	case nfs3.Program:
		return "NFS"
	case mount3.Program:
		return "MOUNT"
	case progRPCBind:
		return "RPCBIND"
	case progNLM:
		return "NLM"
	case progNFSACL:
		return "NFSACL"
	case progCCP:
		return "CCP"
	case progCallback:
		return "NFS4CB"
	}
	return fmt.Sprintf("program-%d", prog)
}

// procName returns the name of a procedure, or its number.
func procName(prog, vers, proc uint32) string {
	var names []string
	switch {
	case proc == 0:
		return "NULL" // of every program, RFC 5531 Section 12.1
	case prog == nfs3.Program && vers == nfs3.Version && nfs3.Proc(proc).Known():
		return nfs3.Proc(proc).String()
	case prog == mount3.Program && proc < mount3.ProcCount:
		return mount3.Proc(proc).String()
	case prog == nfs3.Program && vers == 4, prog == progCallback:
		names = []string{1: "COMPOUND"}
	case prog == progNFSACL:
		names = []string{1: "GETACL", "SETACL", "GETATTR", "ACCESS", "GETXATTRDIR"}
	case prog == progCCP:
		names = []string{1: "CONF_RDMA"}
	}
	if int64(proc) < int64(len(names)) {
		return names[proc]
	}
	return fmt.Sprintf("proc-%d", proc)
}

// messages returns empty values for the arguments and results of a procedure, nil when this
// package has no codec for it.
func messages(prog, vers, proc uint32) (args, res nfs3.Message) {
	switch {
	case prog == nfs3.Program && vers == nfs3.Version && nfs3.Proc(proc).Known():
		return nfs3.Proc(proc).NewArgs(), nfs3.Proc(proc).NewRes()
	case prog == mount3.Program && vers == mount3.Version && proc < mount3.ProcCount:
		return mount3.Proc(proc).NewArgs(), mount3.Proc(proc).NewRes()
	}
	return nil, nil
}

// status returns the word with which NFS and MNT results begin, and its name. The name is "" for procedures
// without such a word, and for results that are too short.
func status(prog, vers, proc uint32, results []byte) (code uint32, name string) {
	d := xdr.NewDecoder(results)
	code = d.Uint32()
	if d.Err() != nil || proc == 0 {
		return 0, ""
	}
	switch {
	case prog == nfs3.Program && vers == nfs3.Version, prog == progNFSACL:
		return code, nfs3.Status(code).String()
	case prog == mount3.Program && mount3.Proc(proc) == mount3.ProcMnt:
		return code, mount3.Status(code).String()
	case proc == 1 && (prog == nfs3.Program && vers == 4 || prog == progCallback):
		return code, nfs4Status(code)
	}
	return 0, ""
}
