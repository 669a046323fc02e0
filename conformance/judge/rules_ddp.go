package judge

// ddpRules are the rules DDP-*.
var ddpRules = []*Rule{}
