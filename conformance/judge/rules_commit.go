package judge

// commitRules are the rules COMMIT-*.
var commitRules = []*Rule{}
