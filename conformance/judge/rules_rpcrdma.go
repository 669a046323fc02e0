package judge

// rpcrdmaRules are the rules RPCRDMA-*.
var rpcrdmaRules = []*Rule{}
