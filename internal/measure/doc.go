// Package measure is the method of the benchmarks. They compare two figures of the same run, round by
// round, and the median of the ratios has to keep to a bound: [Case], [Run], [Result], [Print].
//
//   - [MedianOf], [Rate], [CPU] and [ProcessUsage] take figures: times, calls a second, processor time,
//     context switches.
//   - [StartPeer] and [ServePeer] are the two ends of a measurement between processes, and [Listen] and
//     [Dial] make their sockets, all with the same congestion control.
//   - [Until] and [Scratch] let an interrupted measurement end and take its files with it.
//   - [Chart] draws lines over a logarithmic axis, and [Bars] bars.
package measure
