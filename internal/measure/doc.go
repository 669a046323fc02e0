// Package measure is the method of the benchmarks: ratios of two figures of the same run,
// with a bound that the median of their rounds has to keep to (Case, Run, Result, Print), lines over a
// logarithmic axis (Chart), sockets with one congestion control (Listen, Dial), and the
// processor time of a process (CPU).
package measure
