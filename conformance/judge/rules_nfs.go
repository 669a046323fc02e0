package judge

// nfsRules are the rules NFS-*.
var nfsRules = []*Rule{}
