package judge

// rdmapRules are the rules RDMAP-*.
var rdmapRules = []*Rule{}
